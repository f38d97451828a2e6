package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// screen prints what happens: a line for each group as it ends, and what did
// not pass with the reason.
type screen struct {
	w       io.Writer
	verbose bool
	// control says that this is the negative control, where failing is what
	// is expected of some specs.
	control bool
}

func newScreen(w io.Writer, f *flags) *screen { return &screen{w, f.verbose, f.noWalls} }

func (s *screen) begin(t *conformance.Target) {
	fmt.Fprintf(s.w, "checking %s, which claims %v\n", t.Name, t.Capabilities)
}

func (s *screen) spec(r report.Spec) {
	bad := r.Verdict == report.Fail || r.Verdict == report.Error
	if s.control {
		bad = r.Expected == report.Pass && bad || r.Expected == report.Fail && r.Verdict == report.Pass
	}
	if s.verbose || bad {
		fmt.Fprintf(s.w, "  %-5s %-11s %s%s\n", r.ID, words(r.Verdict), r.Title, because(r.Reason))
	}
}

func (s *screen) mutant(m report.Mutant) {
	if s.verbose || !m.Killed {
		how := "killed"
		if !m.Killed {
			how = "ALIVE"
		}
		fmt.Fprintf(s.w, "  mutant %-6s %s: %s%s\n", how, m.Killer, m.Name, because(m.Reason))
	}
}

func (s *screen) end(r *report.Report, where string) {
	for _, g := range conformance.Groups() {
		s.group(r, g)
	}
	if len(r.Mutants) > 0 {
		killed := 0
		for _, m := range r.Mutants {
			if m.Killed {
				killed++
			}
		}
		fmt.Fprintf(s.w, "mutants      %d of %d killed\n", killed, len(r.Mutants))
	}
	for _, v := range []report.Verdict{report.NotRun, report.NotClaimed} {
		s.left(r, v)
	}
	if c := r.Control; c != nil {
		fmt.Fprintf(s.w, "negative control: held=%v, blind=%v, wrong=%v\n", c.Held, c.Blind, c.Wrong)
	}
	fmt.Fprintf(s.w, "verdict: %s in %.1f s; reports in %s\n", r.Verdict, r.Seconds, where)
}

func (s *screen) group(r *report.Report, g conformance.Group) {
	n := map[report.Verdict]int{}
	total, seconds := 0, 0.0
	for _, spec := range r.Specs {
		if spec.Group == string(g) {
			n[spec.Verdict]++
			total++
			seconds += spec.Seconds
		}
	}
	if total == 0 {
		return
	}
	var parts []string
	for _, v := range []report.Verdict{report.Pass, report.Fail, report.NotClaimed, report.NotRun, report.Error} {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], words(v)))
		}
	}
	fmt.Fprintf(s.w, "%s %-10s %s (%.1f s)\n", g, g.Title(), strings.Join(parts, ", "), seconds)
}

// left says what was not looked at and why, one line for each reason.
func (s *screen) left(r *report.Report, v report.Verdict) {
	ids := map[string][]string{}
	var reasons []string
	for _, spec := range r.Specs {
		if spec.Verdict != v {
			continue
		}
		if ids[spec.Reason] == nil {
			reasons = append(reasons, spec.Reason)
		}
		ids[spec.Reason] = append(ids[spec.Reason], spec.ID)
	}
	for _, reason := range reasons {
		fmt.Fprintf(s.w, "%s: %s: %s\n", words(v), strings.Join(ids[reason], " "), reason)
	}
}

func words(v report.Verdict) string { return strings.ReplaceAll(string(v), "_", " ") }

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
