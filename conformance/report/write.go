package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
)

// Schema is the JSON Schema of report.json.
//
//go:embed schema.json
var Schema []byte

// Write writes report.json, junit.xml, summary.md, badge.json and report.html
// into dir/<target>, which it makes.
func Write(dir string, r *Report) error {
	where := filepath.Join(dir, r.Target.Name)
	if err := os.MkdirAll(where, 0o755); err != nil {
		return fmt.Errorf("making the report's directory: %w", err)
	}
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	badge, err := json.Marshal(badgeOf(r))
	if err != nil {
		return fmt.Errorf("encoding the badge: %w", err)
	}
	page, err := HTML([]*Report{r})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"report.json": append(document, '\n'),
		"summary.md":  Markdown(r),
		"badge.json":  append(badge, '\n'),
		"report.html": page,
	} {
		if err := os.WriteFile(filepath.Join(where, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if err := reporters.GenerateJUnitReport(junit(r), filepath.Join(where, "junit.xml")); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return nil
}

// Read reads a report.json.
func Read(name string) (*Report, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	r := new(Report)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return r, nil
}

// Badge is an endpoint badge, as shields.io reads it.
type Badge struct {
	SchemaVersion int    `json:"schemaVersion"`
	Label         string `json:"label"`
	Message       string `json:"message"`
	Color         string `json:"color"`
}

func badgeOf(r *Report) Badge {
	color := map[Verdict]string{Pass: "brightgreen", Partial: "yellow", Fail: "red", Error: "lightgrey"}[r.Verdict]
	message := fmt.Sprintf("%s (%d/%d)", r.Verdict, r.Counts[Pass], len(r.Specs))
	if r.Control != nil && r.Control.Held {
		message, color = "no walls, as expected", "blue"
	}
	return Badge{SchemaVersion: 1, Label: "sandbox conformance: " + r.Target.Name, Message: message, Color: color}
}

// junit is the report as Ginkgo would have made it, so that its writer can be
// used and every tool that reads Ginkgo's reads ours.
func junit(r *Report) types.Report {
	g := types.Report{
		SuiteDescription: "sandbox conformance of " + r.Target.Name,
		SuiteSucceeded:   r.Verdict == Pass || r.Verdict == Partial,
		StartTime:        r.Started,
		EndTime:          r.Started.Add(seconds(r.Seconds)),
		RunTime:          seconds(r.Seconds),
	}
	for _, s := range r.Specs {
		spec := types.SpecReport{
			LeafNodeText:   s.ID + " " + s.Title,
			LeafNodeType:   types.NodeTypeIt,
			LeafNodeLabels: []string{s.Group, s.ID},
			RunTime:        seconds(s.Seconds),
			State:          state(s.Verdict),
		}
		if spec.State != types.SpecStatePassed {
			spec.Failure = types.Failure{Message: s.Reason, Location: types.NewCodeLocation(0), FailureNodeContext: types.FailureNodeIsLeafNode}
		}
		for _, e := range s.Evidence {
			spec.CapturedStdOutErr += fmt.Sprintf("%s %q %s %s\n", e.Run, e.Argv, e.Error, e.Stderr)
		}
		g.SpecReports = append(g.SpecReports, spec)
	}
	return g
}

func state(v Verdict) types.SpecState {
	switch v {
	case Pass:
		return types.SpecStatePassed
	case NotClaimed, NotRun:
		return types.SpecStateSkipped
	case Error:
		return types.SpecStatePanicked
	default:
		return types.SpecStateFailed
	}
}
