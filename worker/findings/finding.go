package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Severity is how bad a finding is.
type Severity string

// The severities, worst first.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
	Info     Severity = "info"
	Unknown  Severity = "unknown"
)

var severities = []Severity{Critical, High, Medium, Low, Info, Unknown}

// ParseSeverity reads a severity in any letter case; what it does not know is
// Unknown.
func ParseSeverity(s string) Severity {
	lower := Severity(strings.ToLower(clip(s, 16)))
	switch {
	case slices.Contains(severities, lower):
		return lower
	case lower == "moderate":
		return Medium
	case lower == "error":
		return High
	case lower == "warning":
		return Medium
	}
	return Unknown
}

// Finding is one thing that a scanner found.
type Finding struct {
	// Scanner is the name of the scanner.
	Scanner string `json:"scanner"`
	// Rule is the scanner's own name for what it looks for, or an advisory.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// Message says what was found, in one sentence.
	Message string `json:"message"`
	// File is where, below the artifact; empty when the scanner did not say.
	File string `json:"file,omitempty"`
	// Line is the line in File, 0 when unknown.
	Line int64 `json:"line,omitempty"`
	// Package is the component that a vulnerability is in.
	Package string `json:"package,omitempty"`
	// Evidence is what the scanner saw, cut short.
	Evidence string `json:"evidence,omitempty"`
}

// The bounds of a Set. A scanner's stdout has at most wire.StdoutCap bytes,
// which is room for more findings than anybody reads.
const (
	// CountCap is how many findings are kept.
	CountCap = 10_000
	// TextCap is how many bytes of one string are kept.
	TextCap = 1024
)

// Set is what one scanner found.
type Set struct {
	// Findings are the findings kept, worst first.
	Findings []Finding
	// Total counts all of them, those not kept included.
	Total int
	// Notes say what the scanner itself could not do. They are no findings,
	// but a set without findings and with notes is not the all-clear.
	Notes []string
}

// noteCap is how many notes are kept.
const noteCap = 100

func (s *Set) note(format string, args ...any) {
	if len(s.Notes) < noteCap {
		s.Notes = append(s.Notes, text(fmt.Sprintf(format, args...)))
	}
}

func (s *Set) add(f Finding) {
	s.Total++
	if len(s.Findings) == CountCap {
		return
	}
	f.Scanner, f.Rule, f.Message = text(f.Scanner), text(f.Rule), text(f.Message)
	f.File, f.Package, f.Evidence = text(f.File), text(f.Package), text(f.Evidence)
	f.Line = max(f.Line, 0)
	s.Findings = append(s.Findings, f)
}

// sort puts the worst first and is otherwise by place and rule, so that equal
// findings print equally whatever order a scanner's threads came in.
func (s *Set) sort() {
	slices.SortStableFunc(s.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Evidence, b.Evidence),
		)
	})
}

// text is s as valid UTF-8 in one line of at most TextCap bytes.
func text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return clip(strings.Join(strings.Fields(s), " "), TextCap)
}

// clip cuts s to at most n bytes, at a rune's boundary, and says so with "…".
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
