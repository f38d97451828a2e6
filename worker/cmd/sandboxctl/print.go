package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

// printReport prints a scan for people.
func printReport(w io.Writer, r scan.Report) error {
	p := &printer{w: w}
	p.line("artifact  %s, %s", r.Artifact.Name, ui.Bytes(r.Artifact.Size))
	for _, room := range r.Rooms {
		p.room(r.Runtime, room)
	}
	for _, s := range r.Scanners {
		p.scanner(s)
	}
	p.line("verdict   %s", r.Verdict)
	return p.err
}

// printer remembers the first write that failed.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, ui.Clean(fmt.Sprintf(format, args...)))
	}
}

func (p *printer) table(rows [][]string) {
	if p.err == nil {
		p.err = ui.Table(p.w, "  ", rows)
	}
}

func (p *printer) room(runtime string, r scan.Room) {
	name := r.Scanner
	if r.Image != "" {
		name = r.Image
	}
	if r.Skipped != "" {
		p.line("room      %s on %s: NO WALLS, %s", name, runtime, r.Skipped)
		return
	}
	state := "proven"
	if r.Error != "" {
		state = "NOT PROVEN"
	}
	agent := ""
	if r.Agent != "" {
		agent = fmt.Sprintf(", agent %s, uid %d", agentVersion(r.Agent), r.UID)
	}
	p.line("room      %s on %s: %s in %.2fs%s", name, runtime, state, float64(r.Millis)/1000, agent)
	var rows [][]string
	for _, v := range r.Verdicts {
		rows = append(rows, []string{outcomeWord(v.Outcome), string(v.ID), v.Detail})
	}
	for _, c := range r.Commands {
		rows = append(rows, []string{"", "command", c.Path + " sha256 " + c.SHA256})
	}
	p.table(rows)
	if r.Hint != "" {
		p.line("  hint: %s", r.Hint)
	}
}

func outcomeWord(o wire.Outcome) string {
	switch o {
	case wire.Pass:
		return "holds"
	case wire.Fail:
		return "FAILS"
	case wire.Warn:
		return "warning"
	}
	return "not claimed"
}

func (p *printer) scanner(s scan.Scanner) {
	used := ""
	if len(s.Runs) > 0 {
		r := s.Runs[0]
		used = fmt.Sprintf(" (%d files, %s unpacked; %.2fs)", r.Extraction.Files, ui.Bytes(r.Extraction.Bytes), float64(r.Millis)/1000)
	}
	switch s.Verdict {
	case scan.Clean:
		p.line("scanner   %s: nothing found%s", s.Name, used)
	case scan.Findings:
		p.line("scanner   %s: %s%s", s.Name, plural(s.Total, "finding"), used)
	case scan.Refused:
		p.line("scanner   %s: the artifact was refused: %s%s", s.Name, refusalWords(s.Refusal), used)
	case scan.Failed:
		p.line("scanner   %s: NO ANSWER: %s", s.Name, s.Error)
	}
	p.findings(s)
	for _, note := range s.Notes {
		p.line("  note: %s", note)
	}
	for _, r := range s.Runs {
		p.extraction(r.Extraction)
	}
}

// shown is how many findings a table shows; the JSON form has more.
const shown = 50

func (p *printer) findings(s scan.Scanner) {
	var rows [][]string
	for _, f := range s.Findings[:min(shown, len(s.Findings))] {
		rows = append(rows, []string{string(f.Severity), f.Rule, place(f), message(f)})
	}
	p.table(rows)
	if more := s.Total - len(rows); more > 0 {
		p.line("  and %d more, see --format json", more)
	}
}

func place(f findings.Finding) string {
	switch {
	case f.File == "":
		return f.Package
	case f.Line > 0:
		return f.File + ":" + strconv.FormatInt(f.Line, 10)
	}
	return f.File
}

func message(f findings.Finding) string {
	text := f.Message
	if f.Evidence != "" {
		text += " — " + f.Evidence
	}
	const most = 160
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// extraction names what was not unpacked as it stood: a way to hide from a
// scanner.
func (p *printer) extraction(e wire.Extraction) {
	for _, c := range []struct {
		n    int64
		what string
	}{{e.Skipped, "left out"}, {e.Renamed, "kept under another name"}, {e.Replaced, "put in an earlier one's place"}, {e.Clamped, "stripped of set-id or sticky bits"}, {e.Noted, "in another's place to some installers"}} {
		if c.n > 0 {
			p.line("  note: %s %s", plural(int(c.n), "entry", "entries"), c.what)
		}
	}
	const most = 5
	for i, n := range e.Notes {
		if i == most {
			p.line("  note: and %d more, see --format json", len(e.Notes)-most)
			break
		}
		p.line("  note: %s %s (%s): %s", n.Entry, n.Action, n.Rule, n.Detail)
	}
}

func refusalWords(r *wire.Refusal) string {
	where := r.Input
	if r.Entry != "" {
		where += ", entry " + r.Entry
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s (%s)", where, r.Detail, r.Rule))
}

func plural(n int, words ...string) string {
	if n == 1 {
		return "1 " + words[0]
	}
	if len(words) > 1 {
		return fmt.Sprintf("%d %s", n, words[1])
	}
	return fmt.Sprintf("%d %ss", n, words[0])
}
