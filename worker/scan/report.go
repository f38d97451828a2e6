package scan

import (
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
)

// Verdict is what a scan came to.
type Verdict string

// The verdicts, each of which outweighs those before it: a scan of which a
// part failed is not an answer, whatever the other parts found.
const (
	// Clean: every scanner answered, and none found anything.
	Clean Verdict = "clean"
	// Findings: every scanner answered, and at least one found something.
	Findings Verdict = "findings"
	// Refused: the extraction policy refused the artifact, which is an answer
	// about the artifact.
	Refused Verdict = "refused"
	// Failed: a scanner, a sandbox or a probe gave no answer.
	Failed Verdict = "failed"
)

var weight = map[Verdict]int{Clean: 0, Findings: 1, Refused: 2, Failed: 3}

// Report is a whole scan.
type Report struct {
	Artifact Artifact  `json:"artifact"`
	Runtime  string    `json:"runtime"`
	Verdict  Verdict   `json:"verdict"`
	Rooms    []Room    `json:"rooms"`
	Scanners []Scanner `json:"scanners"`
	// Warnings say what could not be cleaned up.
	Warnings []string `json:"warnings,omitempty"`
}

// Artifact says what was scanned.
type Artifact struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Room is one room's probe.
type Room struct {
	Scanner string `json:"scanner"`
	Image   string `json:"image,omitempty"`
	// Skipped says why there was no probe.
	Skipped  string               `json:"skipped,omitempty"`
	Agent    string               `json:"agent,omitempty"`
	UID      int                  `json:"uid"`
	Verdicts []wire.Verdict       `json:"verdicts"`
	Commands []wire.CommandReport `json:"commands"`
	Millis   int64                `json:"duration_ms"`
	// Error is the failed assertion, empty after a passed probe; Hint what to
	// do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// RoomOf is a probe's report as a room.
func RoomOf(p sandbox.ProbeReport) Room {
	r := Room{
		Scanner: p.Room.Scanner, Image: p.Room.Image, Skipped: p.Skipped, Agent: p.Agent, UID: p.UID,
		Verdicts: p.Verdicts, Commands: p.Commands, Millis: p.Duration.Milliseconds(),
	}
	if err := p.Err(); err != nil {
		r.Error, r.Hint = err.Error(), p.Hint
	}
	return r
}

// Scanner is what one scanner came to.
type Scanner struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	// Total counts the findings, Findings has those that were kept.
	Total    int                `json:"total"`
	Findings []findings.Finding `json:"findings"`
	// Notes say what the scanner could not look at.
	Notes []string `json:"notes,omitempty"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
	// Err is that of the last run that gave no answer, for programs.
	Err error `json:"-"`
	// Refusal says why the artifact was refused.
	Refusal *wire.Refusal `json:"refusal,omitempty"`
	Runs    []Run         `json:"runs"`
}

// Run is what one run used.
type Run struct {
	Extraction wire.Extraction `json:"extraction"`
	Usage      wire.Usage      `json:"usage"`
	Phases     wire.Phases     `json:"phases"`
	Millis     int64           `json:"duration_ms"`
}

func (r *Report) weigh(v Verdict) {
	if weight[v] > weight[r.Verdict] || r.Verdict == "" {
		r.Verdict = v
	}
}
