package sandbox

import (
	"fmt"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// ProbeReport is what a probe found.
type ProbeReport struct {
	// Runtime is the name of the runtime, Room what was probed.
	Runtime string
	Room    Room
	// Skipped says why there was no probe; only a runtime without walls skips.
	Skipped string
	// Agent is the release of the agent in the room, empty without a result.
	Agent string
	// UID is the effective uid that the agent had inside.
	UID int
	// Verdicts has one verdict per assertion, in wire.Assertions' order. When
	// no result came back it holds the failed AssertResult alone.
	Verdicts []wire.Verdict
	// Commands are the programs found in the room, with their digests.
	Commands []wire.CommandReport
	// Duration is how long the probe took.
	Duration time.Duration
	// Hint says what to do about the first failure, in this runtime's terms.
	Hint string
}

// Failed returns the first failed verdict.
func (r ProbeReport) Failed() (wire.Verdict, bool) {
	for _, v := range r.Verdicts {
		if v.Outcome == wire.Fail {
			return v, true
		}
	}
	return wire.Verdict{}, false
}

// Err returns nil when every assertion held, and otherwise a *ProbeError.
func (r ProbeReport) Err() error {
	v, failed := r.Failed()
	switch {
	case r.Skipped != "":
		return nil
	case failed:
		return &ProbeError{Runtime: r.Runtime, Verdict: v, Hint: r.Hint}
	case len(r.Verdicts) == 0:
		return &ProbeError{Runtime: r.Runtime, Verdict: wire.Verdict{
			ID: wire.AssertResult, Outcome: wire.Fail, Detail: "the probe reported nothing",
		}, Hint: r.Hint}
	}
	return nil
}

// ProbeError is a wall that did not hold.
type ProbeError struct {
	Runtime string
	Verdict wire.Verdict
	Hint    string
}

// Error names the assertion that failed. The hint is a line of its own for
// whoever prints one.
func (e *ProbeError) Error() string {
	if e.Verdict.ID == wire.AssertResult {
		return fmt.Sprintf("probe failed for runtime %q: the sandbox never started — %s", e.Runtime, e.Verdict.Detail)
	}
	return fmt.Sprintf("probe failed for runtime %q: %s — %s", e.Runtime, e.Verdict.ID, e.Verdict.Detail)
}
