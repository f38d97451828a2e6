package adapter

import (
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Capabilities answers the verb "capabilities", which gets no document.
type Capabilities struct {
	// Name is the runtime's name, Target what reports are filed under.
	Name   string `json:"name"`
	Target string `json:"target,omitempty"`
	// Capabilities are what is claimed: see conformance.Capability.
	Capabilities []string          `json:"capabilities"`
	Versions     map[string]string `json:"versions,omitempty"`
	// Scanner is the label's scanner of every run; Image the image.
	Scanner string `json:"scanner,omitempty"`
	Image   string `json:"image,omitempty"`
	// Programs are where the programs are inside a room, by name. What is
	// left out is at its path on the host.
	Programs map[string]string `json:"programs,omitempty"`
	// Leftovers lists what the adapter has around on the host: see
	// conformance.Target.Left.
	Leftovers []string `json:"leftovers,omitempty"`
}

// RunRequest is the document of the verb "run": sandbox.RunSpec, with times in
// milliseconds and the artifact as a file of this host.
type RunRequest struct {
	Argv           []string           `json:"argv"`
	Entries        []wire.Entry       `json:"entries"`
	Policy         wire.ExtractPolicy `json:"policy"`
	Limits         wire.Limits        `json:"limits"`
	StartTimeoutMS int64              `json:"start_timeout_ms"`
	TimeoutMS      int64              `json:"timeout_ms"`
	Network        bool               `json:"network"`
	Image          string             `json:"image,omitempty"`
	Label          wire.Label         `json:"label"`
	// Artifact is the file that an entry with the URL "artifact:" stands for,
	// ArtifactSize the size that it is said to have.
	Artifact     string `json:"artifact,omitempty"`
	ArtifactSize int64  `json:"artifact_size,omitempty"`
}

// RunAnswer answers "run": sandbox.RunOutput.
type RunAnswer struct {
	Status     *int        `json:"status,omitempty"`
	Stdout     []byte      `json:"stdout"` // base64
	StderrTail string      `json:"stderr_tail"`
	Result     wire.Result `json:"result"`
}

// ProbeRequest is the document of the verb "probe".
type ProbeRequest struct {
	Scanner  string      `json:"scanner"`
	Image    string      `json:"image,omitempty"`
	Commands []string    `json:"commands"`
	Limits   wire.Limits `json:"limits"`
	Canaries []string    `json:"canaries"`
}

// ProbeAnswer answers "probe": sandbox.ProbeReport.
type ProbeAnswer struct {
	Skipped  string               `json:"skipped,omitempty"`
	Agent    string               `json:"agent,omitempty"`
	UID      int                  `json:"uid"`
	Verdicts []wire.Verdict       `json:"verdicts"`
	Commands []wire.CommandReport `json:"commands"`
	Hint     string               `json:"hint,omitempty"`
}

// SweepRequest is the document of the verb "sweep".
type SweepRequest struct {
	Worker      string `json:"worker"`
	OlderThanMS int64  `json:"older_than_ms"`
}

// SweepAnswer answers "sweep".
type SweepAnswer struct {
	Removed []Orphan `json:"removed"`
}

// Orphan is one thing that a sweep removed.
type Orphan struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Worker string `json:"worker,omitempty"`
	AgeMS  int64  `json:"age_ms"`
}

// Error is what may be printed instead of an answer: sandbox.Error.
type Error struct {
	Kind      string `json:"kind"`
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail"`
	Hint      string `json:"hint,omitempty"`
	OOMKilled bool   `json:"oom_killed,omitempty"`
	Signal    string `json:"signal,omitempty"`
}

// Request writes a run as the protocol has it, without the artifact's file.
func Request(spec sandbox.RunSpec) RunRequest {
	r := RunRequest{
		Argv: spec.Argv, Entries: spec.Bundle.Entries, Policy: spec.Bundle.Policy, Limits: spec.Limits,
		StartTimeoutMS: spec.StartTimeout.Milliseconds(), TimeoutMS: spec.Timeout.Milliseconds(),
		Network: spec.Network, Image: spec.Image, Label: spec.Label,
	}
	if r.Entries == nil {
		r.Entries = []wire.Entry{}
	}
	return r
}

// Spec is the way back.
func (r RunRequest) Spec() sandbox.RunSpec {
	return sandbox.RunSpec{
		Argv: r.Argv, Bundle: sandbox.Bundle{Entries: r.Entries, Policy: r.Policy}, Limits: r.Limits,
		StartTimeout: time.Duration(r.StartTimeoutMS) * time.Millisecond, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		Network: r.Network, Image: r.Image, Label: r.Label,
	}
}
