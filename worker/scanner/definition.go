package scanner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
)

// DefaultTimeout bounds extraction and scanner together where nothing is said.
const DefaultTimeout = 5 * time.Minute

// Definition is a scanner with everything filled in.
type Definition struct {
	// Name is its own, and that of its room.
	Name string
	// Type is the predefined scanner it builds on, or TypeCommand.
	Type    string
	Command string
	// Args are its arguments, with the placeholders still in them.
	Args   []string
	Layout Layout
	// Timeout bounds extraction and scanner together.
	Timeout time.Duration
	Network bool
	// Findings is how its output is read.
	Findings findings.Format
	Image    string
	// AddressSpaceMB is RLIMIT_AS; 0 means the limit on memory.
	AddressSpaceMB int64
	// Endpoint, Online, Timeline and Ecosystems belong to single types.
	Endpoint   string
	Online     bool
	Timeline   bool
	Ecosystems []string
}

// Layout says where the artifact goes.
type Layout struct {
	Kind LayoutKind
	// Path is where it goes below the work directory.
	Path wire.RelPath
	// Nested are the inner archives to unpack; nil means those that the
	// artifact's content asks for.
	Nested []wire.Nested
	// Files are small files beside it, by path.
	Files map[string]string
}

// LayoutKind is what is done with the artifact.
type LayoutKind string

// The kinds of a layout.
const (
	// LayoutArchive unpacks it.
	LayoutArchive LayoutKind = "archive"
	// LayoutFile puts it there as it is.
	LayoutFile LayoutKind = "file"
	// LayoutNone leaves it out.
	LayoutNone LayoutKind = "none"
)

// TypeCommand is the type of a scanner that builds on no predefined one.
const TypeCommand = "command"

// unsandboxed are the registry's scanners that make calls of their own and run
// nothing that came with an artifact.
var unsandboxed = []string{"osv", "mlab", "sigstore", "socket"}

// Needed reports whether a configured scanner is one that runs in a sandbox.
func Needed(c config.Scanner) bool { return !slices.Contains(unsandboxed, typeOf(c)) }

func typeOf(c config.Scanner) string {
	switch {
	case c.Type != "":
		return c.Type
	case slices.Contains(unsandboxed, c.Name) && c.Command == "":
		return c.Name
	}
	if _, predefined := predefined[c.Name]; predefined {
		return c.Name
	}
	return TypeCommand
}

// Define fills a configured scanner in from its type. Its errors are
// *config.Error: the configuration is what is wrong.
func Define(c config.Scanner) (Definition, error) {
	kind := typeOf(c)
	d, known := predefined[kind]
	if !known && kind != TypeCommand {
		return Definition{}, refuse(c, "type %.32q of scanner '%s' is not known; one of %s", kind, c.Name, strings.Join(append(Predefined(), TypeCommand), ", "))
	}
	d.Name, d.Type = c.Name, kind
	d.Endpoint, d.Online, d.Timeline, d.Ecosystems, d.Image = c.Endpoint, c.Online, c.Timeline, c.Ecosystems, c.Image
	if c.Command != "" {
		d.Command = c.Command
	}
	if d.Command == "" {
		return Definition{}, refuse(c, "scanner '%s' has no command; set [scanners.%s] command, or type to one of %s", c.Name, c.Name, strings.Join(Predefined(), ", "))
	}
	if c.Args != nil {
		d.Args = c.Args
	}
	if c.Network != nil {
		d.Network = *c.Network
	}
	if c.Timeout > 0 {
		d.Timeout = c.Timeout
	}
	if c.AddressSpaceMB != 0 {
		d.AddressSpaceMB = c.AddressSpaceMB
	}
	return d, d.fill(c)
}

func (d *Definition) fill(c config.Scanner) error {
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
	}
	name := d.Findings.Name
	if c.Findings != "" {
		name = c.Findings
	}
	if name == "" {
		name = "status"
	}
	format, err := findings.Find(name)
	if err != nil {
		return refuse(c, "scanner '%s': %v", c.Name, err)
	}
	d.Findings = format
	if d.Layout.Kind == "" {
		d.Layout = Layout{Kind: LayoutArchive, Path: wire.MustRelPath(artifactPath)}
	}
	if c.Layout != nil {
		return d.override(c)
	}
	return nil
}

// override applies a configured layout. The configuration has checked it.
func (d *Definition) override(c config.Scanner) error {
	l := c.Layout
	d.Layout.Kind = LayoutKind(l.Kind)
	if l.Path != "" {
		p, err := wire.ParseRelPath(l.Path)
		if err != nil {
			return refuse(c, "layout of scanner '%s': %v", c.Name, err)
		}
		d.Layout.Path = p
	}
	// The files of the type stay: without its own configuration gitleaks would
	// read the package's.
	if len(l.Files) > 0 {
		files := maps.Clone(l.Files)
		for name, content := range d.Layout.Files {
			if _, own := files[name]; !own {
				files[name] = content
			}
		}
		d.Layout.Files = files
	}
	if l.Nested != nil {
		d.Layout.Nested = []wire.Nested{}
	}
	for _, n := range l.Nested {
		into, err := wire.ParseRelPath(n.Into)
		if err != nil {
			return refuse(c, "layout of scanner '%s': %v", c.Name, err)
		}
		d.Layout.Nested = append(d.Layout.Nested, wire.Nested{Member: n.Member, Into: into})
	}
	if d.Layout.Kind == LayoutFile && d.Layout.Path.IsRoot() {
		return refuse(c, "layout of scanner '%s': a file needs a path", c.Name)
	}
	return nil
}

func refuse(c config.Scanner, format string, args ...any) error {
	return &config.Error{File: c.File, Line: c.Line, Message: fmt.Sprintf(format, args...)}
}
