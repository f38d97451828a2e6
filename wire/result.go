package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Result is what the agent reports of one run. Everything a run can come to
// that says something about the artifact or the scanner is in Ending; what the
// agent itself could not do is in Failure.
type Result struct {
	// Wire is the wire version of the agent.
	Wire int `json:"wire"`
	// Agent is the agent's own release.
	Agent string `json:"agent"`
	// Ending says how the run ended.
	Ending Ending `json:"ending"`
	// Status is the scanner's exit status; absent when it has none because it
	// was killed by a signal or never started.
	Status *int `json:"status,omitempty"`
	// Signal names the signal that killed the scanner, as in "SIGXCPU".
	Signal string `json:"signal,omitempty"`
	// OOMKilled says that the kernel killed a process of the sandbox for want
	// of memory, where the agent can tell.
	OOMKilled bool `json:"oom_killed"`
	// StdoutBytes and StderrBytes count what the scanner printed, including
	// what was dropped.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// StderrTail is the end of what the scanner printed to stderr.
	StderrTail string `json:"stderr_tail"`
	// Refusal says why the artifact was refused, when Ending is EndRefused.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Failure says what the agent could not do, when Ending is EndFailed.
	Failure *Failure `json:"failure,omitempty"`
	// Extraction counts what was unpacked and names every deviation.
	Extraction Extraction `json:"extraction"`
	// Usage is what the scanner and its children used.
	Usage Usage `json:"usage"`
	// Phases is how long each phase took.
	Phases Phases `json:"phases"`
	// Probe is what a probe saw; absent on an ordinary run.
	Probe *ProbeResult `json:"probe,omitempty"`
}

// Ending is how a run ended.
type Ending string

// The endings of a run.
const (
	// EndExited: the scanner exited; its status is an answer whatever it is.
	EndExited Ending = "exited"
	// EndSignaled: a signal killed the scanner.
	EndSignaled Ending = "signaled"
	// EndTimedOut: extraction and scanner together took longer than the
	// manifest allows.
	EndTimedOut Ending = "timed_out"
	// EndStdoutCap: the scanner printed more than StdoutCap.
	EndStdoutCap Ending = "stdout_cap"
	// EndRefused: the policy refused the artifact, which is an answer about it.
	EndRefused Ending = "refused"
	// EndFailed: the agent could not do its part, which is no answer.
	EndFailed Ending = "failed"
	// EndProbed: the run was a probe and its verdicts are in Probe.
	EndProbed Ending = "probed"
)

// Refusal is an answer about the artifact: what in it broke which rule.
type Refusal struct {
	// Input is the path of the manifest's entry that was being unpacked.
	Input string `json:"input"`
	// Entry is the name of the archive's entry, empty when the archive as a
	// whole was refused. Names that are not printable UTF-8 are quoted.
	Entry string `json:"entry"`
	// Rule is the stable name of the rule.
	Rule string `json:"rule"`
	// Detail says what was found, in one line.
	Detail string `json:"detail"`
}

// Failure is what the agent could not do.
type Failure struct {
	Stage Stage `json:"stage"`
	// Code is the stable name of the failure: "no_space", "not_found",
	// "not_executable", "network_open", "size_mismatch", "wire_version",
	// "timeout", "io".
	Code string `json:"code"`
	// Detail says what was being done and what came of it, in one line.
	Detail string `json:"detail"`
}

// Stage is where in its sequence the agent was.
type Stage string

// The stages of a run, in order.
const (
	StageManifest Stage = "manifest"
	StageFetch    Stage = "fetch"
	StageExtract  Stage = "extract"
	StageGate     Stage = "gate"
	StageLaunch   Stage = "launch"
	StageCollect  Stage = "collect"
)

// The codes of a failure.
const (
	CodeNoSpace       = "no_space"
	CodeNotFound      = "not_found"
	CodeNotExecutable = "not_executable"
	CodeNetworkOpen   = "network_open"
	CodeSizeMismatch  = "size_mismatch"
	CodeWireVersion   = "wire_version"
	// CodeTimeout: the fetch took longer than Manifest.FetchMS.
	CodeTimeout = "timeout"
	CodeIO      = "io"
)

// Extraction counts what was unpacked. Nothing is left out in silence: each
// deviation is counted, and the first NoteCountCap of them are named.
type Extraction struct {
	Archives    int64 `json:"archives"`
	Entries     int64 `json:"entries"`
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Symlinks    int64 `json:"symlinks"`
	Hardlinks   int64 `json:"hardlinks"`
	Bytes       int64 `json:"bytes"`
	// Skipped counts entries that carry no content and were left out.
	Skipped int64 `json:"skipped"`
	// Renamed counts entries kept under another name.
	Renamed int64 `json:"renamed"`
	// Replaced counts entries that took the place of an earlier one.
	Replaced int64 `json:"replaced"`
	// Clamped counts entries whose mode lost bits that matter (set-id, sticky).
	Clamped int64 `json:"clamped"`
	// Noted counts entries that are as the archive has them, but that some
	// installers would write elsewhere.
	Noted int64 `json:"noted,omitempty"`
	// Notes name the first deviations.
	Notes []Note `json:"notes"`
}

// Note names one deviation of an extraction.
type Note struct {
	// Entry is the name of the archive's entry, quoted like Refusal.Entry.
	Entry string `json:"entry"`
	// Rule is the stable name of the rule.
	Rule string `json:"rule"`
	// Action is what was done: "skipped", "renamed", "replaced", "clamped",
	// or "noted" when nothing was.
	Action string `json:"action"`
	// Detail says more, in one line.
	Detail string `json:"detail"`
}

// Usage is what the scanner and its children used.
type Usage struct {
	UserMS    int64 `json:"user_ms"`
	SystemMS  int64 `json:"system_ms"`
	MaxRSSKiB int64 `json:"max_rss_kib"`
}

// Phases is how long each phase took, in milliseconds.
type Phases struct {
	FetchMS   int64 `json:"fetch_ms"`
	ExtractMS int64 `json:"extract_ms"`
	RunMS     int64 `json:"run_ms"`
}

// ErrResult is wrapped by every refusal of a result.
var ErrResult = errors.New("invalid result")

// envelope is result.json: the result's exact bytes, and the seal over them
// and stdout.
type envelope struct {
	Seal   string          `json:"seal"`
	Result json.RawMessage `json:"result"`
}

// encode writes result.json, sealed together with stdout.
func (r *Result) encode(key SealKey, stdout []byte) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(r.withLists())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	b, err := json.Marshal(envelope{hex.EncodeToString(key.seal(body, stdout)), body})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	if len(b) > ResultJSONCap {
		return nil, fmt.Errorf("%w: result.json has %d bytes, want at most %d", ErrResult, len(b), ResultJSONCap)
	}
	return b, nil
}

// withLists returns r with every absent list as an empty one, since a null is
// refused by the reader.
func (r *Result) withLists() *Result {
	c := *r
	c.Extraction.Notes = list(r.Extraction.Notes)
	if r.Probe != nil {
		probe := *r.Probe
		probe.Verdicts, probe.Commands = list(probe.Verdicts), list(probe.Commands)
		c.Probe = &probe
	}
	return &c
}

func (r *Result) validate() error {
	if r.Wire != Version {
		return fmt.Errorf("%w: %w", ErrResult, &VersionError{Got: r.Wire})
	}
	if fault := r.fault(); fault != "" {
		return fmt.Errorf("%w: %s", ErrResult, fault)
	}
	return nil
}

// fault says what in r contradicts itself or passes a bound, or nothing.
func (r *Result) fault() string {
	switch {
	case !endings[r.Ending]:
		return fmt.Sprintf("ending %.32q", string(r.Ending))
	case (r.Ending == EndExited) != (r.Status != nil):
		return "status and ending disagree"
	case (r.Ending == EndRefused) != (r.Refusal != nil):
		return "refusal and ending disagree"
	case (r.Ending == EndFailed) != (r.Failure != nil):
		return "failure and ending disagree"
	case (r.Ending == EndProbed) != (r.Probe != nil):
		return "probe and ending disagree"
	case r.Status != nil && (*r.Status < 0 || *r.Status > 255):
		return fmt.Sprintf("status %d", *r.Status)
	case len(r.StderrTail) > 4*StderrTailCap || !utf8.ValidString(r.StderrTail):
		return "stderr_tail is too long"
	case len(r.Extraction.Notes) > NoteCountCap:
		return "too many notes"
	case len(r.Agent) > NameCap || len(r.Signal) > NameCap:
		return "a name is too long"
	}
	return r.listFault()
}

func (r *Result) listFault() string {
	for _, n := range r.Extraction.Notes {
		if tooLong(n.Entry, n.Rule, n.Action, n.Detail) {
			return "a note is too long"
		}
	}
	if f := r.Refusal; f != nil && tooLong(f.Input, f.Entry, f.Rule, f.Detail) {
		return "the refusal is too long"
	}
	if f := r.Failure; f != nil && tooLong(string(f.Stage), f.Code, f.Detail) {
		return "the failure is too long"
	}
	if r.Probe == nil {
		return ""
	}
	if len(r.Probe.Verdicts) > 2*len(Assertions) || len(r.Probe.Commands) > CommandCountCap {
		return "too many verdicts or commands"
	}
	for _, v := range r.Probe.Verdicts {
		if tooLong(string(v.ID), string(v.Outcome), v.Detail) || !outcomes[v.Outcome] {
			return "a verdict is too long or has no outcome"
		}
	}
	for _, c := range r.Probe.Commands {
		if tooLong(c.Command, c.Path) || len(c.SHA256) != 64 {
			return "a command report is too long or has no digest"
		}
	}
	return ""
}

func tooLong(values ...string) bool {
	for _, s := range values {
		if len(s) > DetailCap {
			return true
		}
	}
	return false
}

var endings = map[Ending]bool{
	EndExited: true, EndSignaled: true, EndTimedOut: true, EndStdoutCap: true,
	EndRefused: true, EndFailed: true, EndProbed: true,
}

var outcomes = map[Outcome]bool{Pass: true, Fail: true, Warn: true, NotClaimed: true}
