package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	gotoml "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

// fileCap bounds one configuration file; a real one has a few KiB.
const fileCap = 1 << 20

// layer is one file: its values, and the line of each key.
type layer struct {
	file   string
	values map[string]any
	lines  map[string]int
	// flag says that this is a flag of the command line: file is its name.
	flag bool
	// registrys are the storage backends that the registry declared in a way
	// of its own.
	registrys map[string]bool
}

// sep joins the parts of a key's path. It can't be part of a scanner's name,
// which a dot can.
const sep = "/"

func readLayer(file string) (*layer, error) {
	b, err := readFile(file)
	if err != nil {
		return nil, err
	}
	values, err := toml.Parser().Unmarshal(b)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	l := &layer{file: file, values: values, lines: keyLines(b)}
	l.normalize()
	return l, nil
}

func readFile(file string) ([]byte, error) {
	b, err := bundle.ReadFile(file, fileCap)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Message: fmt.Sprintf("no configuration file at %s; check --config", file)}
	}
	return nil, &Error{Message: fmt.Sprintf("the configuration file can't be read: %v; --config takes a TOML file, and may be given more than once", err)}
}

func syntaxError(file string, err error) error {
	message := strings.TrimPrefix(err.Error(), "toml: ")
	e := &Error{File: file, Message: "not valid TOML: " + message}
	if d, is := errors.AsType[*gotoml.DecodeError](err); is {
		e.Line, _ = d.Position()
	}
	return e
}

// keyLines finds the line of every key and table header. It reads a document
// that has been parsed before, and so stops without a word at what it can't
// read: a message then names the file alone.
func keyLines(b []byte) map[string]int {
	lines := map[string]int{}
	p := unstable.Parser{}
	p.Reset(b)
	table, elements := "", map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			table, _ = recordKey(&p, lines, "", e)
		case unstable.ArrayTable:
			path, line := recordKey(&p, lines, "", e)
			table = elementPath(path, elements[path])
			lines[table] = line
			elements[path]++
		case unstable.KeyValue:
			recordValue(&p, lines, table, e)
		}
	}
	return lines
}

// elementPath is the path of one table of an array of tables. No key has a
// NUL byte in its name.
func elementPath(path string, i int) string { return path + sep + "\x00" + strconv.Itoa(i) }

func recordValue(p *unstable.Parser, lines map[string]int, prefix string, e *unstable.Node) {
	path, _ := recordKey(p, lines, prefix, e)
	if value := e.Value(); value.Kind == unstable.InlineTable {
		for it := value.Children(); it.Next(); {
			recordValue(p, lines, path, it.Node())
		}
	}
}

func recordKey(p *unstable.Parser, lines map[string]int, prefix string, e *unstable.Node) (string, int) {
	path, line := prefix, 0
	for it := e.Key(); it.Next(); {
		node := it.Node()
		path = join(path, string(node.Data))
		if node.Raw.Length > 0 {
			line = p.Shape(node.Raw).Start.Line
		}
		if lines[path] == 0 {
			lines[path] = line
		}
	}
	return path, line
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + sep + name
}
