package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
)

//go:embed page.html.tmpl
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"words": func(v Verdict) string { return strings.ReplaceAll(string(v), "_", " ") },
	"join":  strings.Join,
	"json": func(v any) string {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err.Error()
		}
		return string(b)
	},
}).Parse(pageSource))

// row is one spec over all reports.
type row struct {
	ID, Group, Title, Why string
	Cells                 []*Spec // nil where a report has no such spec
}

// HTML is one page that needs nothing else: specs down, targets across, the
// evidence behind each cell, versions and commands.
func HTML(reports []*Report) ([]byte, error) {
	var rows []*row
	byID := map[string]*row{}
	for i, r := range reports {
		for j := range r.Specs {
			s := &r.Specs[j]
			w := byID[s.ID]
			if w == nil {
				w = &row{ID: s.ID, Group: s.Group, Title: s.Title, Why: s.Why, Cells: make([]*Spec, len(reports))}
				byID[s.ID] = w
				rows = append(rows, w)
			}
			w.Cells[i] = s
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]any{"Reports": reports, "Rows": rows}); err != nil {
		return nil, fmt.Errorf("writing the page: %w", err)
	}
	return b.Bytes(), nil
}
