package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The part of the README that is made from values.yaml.
const (
	valuesBegin = "<!-- values: written by ./task helm:docs -->\n"
	valuesEnd   = "<!-- values end -->\n"
)

// Value is a documented value of the chart: one whose comment begins with "# -- ",
// as helm-docs reads it.
type Value struct{ Path, Type, Default, Doc string }

// Documented reads the documented values of a chart, in their order. A value
// that neither has documentation nor is within one that has is an error.
func Documented(dir string) ([]Value, error) {
	file := filepath.Join(dir, "values.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(b, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []Value
	return all, collect(&all, "", document.Content[0])
}

func collect(all *[]Value, path string, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		doc, documented := docOf(key.HeadComment)
		switch {
		case documented:
			v, err := describe(value)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			v.Path, v.Doc = at, doc
			*all = append(*all, v)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := collect(all, at, value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("values.yaml:%d: %s has no comment that begins with \"# -- \"", key.Line, at)
		}
	}
	return nil
}

func docOf(comment string) (string, bool) {
	_, doc, found := strings.Cut("\n"+comment, "\n# -- ")
	return strings.ReplaceAll(doc, "\n# ", " "), found
}

func describe(node *yaml.Node) (Value, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return Value{}, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return Value{}, err
	}
	kinds := map[string]string{"!!str": "string", "!!int": "int", "!!bool": "bool", "!!map": "object", "!!seq": "list", "!!null": "any"}
	return Value{Type: kinds[node.ShortTag()], Default: string(text)}, nil
}

// Readme is a chart's README with its table of values made anew.
func Readme(dir string) ([]byte, error) {
	values, err := Documented(dir)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil, err
	}
	before, rest, begins := bytes.Cut(b, []byte(valuesBegin))
	_, after, ends := bytes.Cut(rest, []byte(valuesEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("README.md has no lines %q and %q", strings.TrimSpace(valuesBegin), strings.TrimSpace(valuesEnd))
	}
	var table bytes.Buffer
	table.WriteString("| value | type | default | |\n|---|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s |\n", v.Path, v.Type, strings.ReplaceAll(v.Default, "|", `\|`), v.Doc)
	}
	return bytes.Join([][]byte{before, []byte(valuesBegin), table.Bytes(), []byte(valuesEnd), after}, nil), nil
}

// WriteReadme writes a chart's README with its table of values made anew.
func WriteReadme(dir string) error {
	b, err := Readme(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), b, 0o644)
}
