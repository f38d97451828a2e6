package report

import (
	"time"
)

// SpecVersion is the version of docs/conformance.md that this suite checks. It
// is a value of the report and no tag of the repository.
const SpecVersion = "1"

// Verdict is what a spec, or all of them, came to.
type Verdict string

// The verdicts.
const (
	// Pass: what must hold holds.
	Pass Verdict = "pass"
	// Fail: it does not.
	Fail Verdict = "fail"
	// NotClaimed: the target does not claim it, and refuses it where asked.
	NotClaimed Verdict = "not_claimed"
	// NotRun: this host lacks what the spec needs.
	NotRun Verdict = "not_run"
	// Error: the suite broke; it says nothing about the target.
	Error Verdict = "error"
	// Partial, of a whole report alone: all that was checked holds, and a part
	// of the core was not claimed or not run.
	Partial Verdict = "partial"
)

// Report is one run of the suite against one target.
type Report struct {
	SpecVersion string    `json:"spec_version"`
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`
	Target      Target    `json:"target"`
	Host        Host      `json:"host"`
	Verdict     Verdict   `json:"verdict"`
	// Counts has a number for each verdict of the specs.
	Counts map[Verdict]int `json:"counts"`
	Specs  []Spec          `json:"specs"`
	// Mutants is the kill table; empty when no mutant was run.
	Mutants []Mutant `json:"mutants"`
	// Control is the outcome of the negative control, where it was run.
	Control *Control `json:"negative_control,omitempty"`
}

// Target says what was checked.
type Target struct {
	Name         string            `json:"name"`
	Capabilities []string          `json:"capabilities"`
	Versions     map[string]string `json:"versions"`
	// Command reproduces the run.
	Command string `json:"command"`
}

// Host says where it was checked.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	UID    int    `json:"uid"`
	CPUs   int    `json:"cpus"`
}

// Spec is what became of one spec.
type Spec struct {
	ID      string  `json:"id"`
	Group   string  `json:"group"`
	Title   string  `json:"title"`
	Why     string  `json:"why"`
	Core    bool    `json:"core"`
	Verdict Verdict `json:"verdict"`
	// Reason says why the verdict is not pass.
	Reason   string     `json:"reason,omitempty"`
	Evidence []Evidence `json:"evidence"`
	Seconds  float64    `json:"seconds"`
	// Expected is the verdict that the negative control asks for; empty when
	// either will do.
	Expected Verdict `json:"expected,omitempty"`
}

// Evidence is one run of a spec, as it was before anything was cleaned up.
type Evidence struct {
	// Run names the run.
	Run string `json:"run"`
	// Argv is what was run inside.
	Argv []string `json:"argv,omitempty"`
	// Error is the runtime's error, its line.
	Error string `json:"error,omitempty"`
	// Result is result.json, or a probe's verdicts, as JSON.
	Result string `json:"result,omitempty"`
	// Stdout and Stderr are the ends that matter.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Note says more.
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Mutant is what became of one mutant.
type Mutant struct {
	Name string `json:"name"`
	// Killer is the spec that must kill it.
	Killer string `json:"killer"`
	Killed bool   `json:"killed"`
	// Reason is how it was killed, or why it was not.
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"`
}

// Control is the outcome of the negative control: what a runtime without
// walls makes of the specs.
type Control struct {
	// Held says that exactly those specs failed that must fail without walls.
	Held bool `json:"held"`
	// Blind are the specs that should have failed and did not.
	Blind []string `json:"blind"`
	// Wrong are the specs that failed and should not have.
	Wrong []string `json:"wrong"`
}

// Count fills in Counts from Specs.
func (r *Report) Count() {
	r.Counts = map[Verdict]int{Pass: 0, Fail: 0, NotClaimed: 0, NotRun: 0, Error: 0}
	for _, s := range r.Specs {
		r.Counts[s.Verdict]++
	}
}

// Judge sets Verdict: an error of the suite before a failure, a failure before
// anything of the core that was left out, and survivors among the mutants are
// the suite's own failure.
func (r *Report) Judge() {
	r.Count()
	r.Verdict = Pass
	for _, s := range r.Specs {
		if s.Core && (s.Verdict == NotClaimed || s.Verdict == NotRun) {
			r.Verdict = Partial
		}
	}
	if len(r.Specs) == 0 || r.Counts[Pass] == 0 {
		r.Verdict = Fail
	}
	if r.Counts[Fail] > 0 {
		r.Verdict = Fail
	}
	for _, m := range r.Mutants {
		if !m.Killed {
			r.Verdict = Error
		}
	}
	if r.Counts[Error] > 0 {
		r.Verdict = Error
	}
}
