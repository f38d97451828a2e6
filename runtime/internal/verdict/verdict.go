// Package verdict judges what a probe brought back, in the same way for every
// runtime that starts one. What to do about a failure differs between them, so
// a runtime brings its own hints.
package verdict

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Hints are a runtime's own words: what to do about each failed assertion, and
// where to read on.
type Hints struct {
	// Of has one hint per assertion.
	Of map[wire.AssertionID]string
	// Docs is the hint that only says where to read on. A fault that has no
	// other gets AssertResult's.
	Docs string
}

// Of fills in what a probe came to: its result or, if there is none, its
// fault. The error is not nil if the probe says nothing about the walls.
func Of(report *sandbox.ProbeReport, result *wire.Result, fault *sandbox.Error, hints Hints) *sandbox.Error {
	switch {
	case fault != nil && (result != nil || saysNothing(fault)):
		// With a result it ran, and what failed is its end.
		return fault
	case otherRelease(fault):
		otherWire(report, fault.Err.Error(), hints)
	case fault != nil:
		neverStarted(report, fault, hints)
	default:
		judge(report, result, hints)
	}
	return nil
}

// saysNothing says whether a fault is of this host or its storage, whatever the
// walls are.
func saysNothing(fault *sandbox.Error) bool {
	return fault.Kind == sandbox.Cancelled || fault.Code == sandbox.CodeNoSpace || fault.Code == sandbox.CodeStorage
}

// neverStarted leaves the one verdict of a probe that brought nothing back.
func neverStarted(report *sandbox.ProbeReport, fault *sandbox.Error, hints Hints) {
	detail := fault.Detail
	if fault.Err != nil {
		detail = strings.TrimPrefix(detail+": "+fault.Err.Error(), ": ")
	}
	if detail == "" {
		detail = string(fault.Kind)
	}
	if line := fault.Said(); line != "" {
		detail += fmt.Sprintf(": %q", line)
	}
	report.Verdicts = []wire.Verdict{{ID: wire.AssertResult, Outcome: wire.Fail, Detail: detail}}
	report.Hint = fault.Hint
	if report.Hint == "" || report.Hint == hints.Docs {
		report.Hint = hints.Of[wire.AssertResult]
	}
}

// otherRelease says whether a result came back that speaks another wire
// version.
func otherRelease(fault *sandbox.Error) bool {
	var version *wire.VersionError
	return fault != nil && errors.As(fault.Err, &version)
}

// otherWire is the probe of a room whose agent is of another release. It
// answered, so there is a result, and nothing in it can be relied on.
func otherWire(report *sandbox.ProbeReport, detail string, hints Hints) {
	report.Verdicts = []wire.Verdict{
		{ID: wire.AssertResult, Outcome: wire.Pass, Detail: "a result came back"},
		{ID: wire.AssertWire, Outcome: wire.Fail, Detail: detail},
	}
	report.Hint = hints.Of[wire.AssertWire]
}

// judge takes the verdicts of a result: exactly one per assertion, in order. An
// assertion that the agent says nothing about has failed.
func judge(report *sandbox.ProbeReport, result *wire.Result, hints Hints) {
	report.Agent = result.Agent
	if result.Probe == nil {
		noProbe(report, result, hints)
		return
	}
	report.UID, report.Commands = result.Probe.UID, result.Probe.Commands
	said := map[wire.AssertionID]wire.Verdict{
		wire.AssertResult: {ID: wire.AssertResult, Outcome: wire.Pass, Detail: "a result came back"},
	}
	for _, v := range result.Probe.Verdicts {
		if old, twice := said[v.ID]; !twice || old.Outcome == wire.Pass && v.ID != wire.AssertResult {
			said[v.ID] = v
		}
	}
	for _, id := range wire.Assertions {
		v, ok := said[id]
		if !ok {
			v = wire.Verdict{ID: id, Outcome: wire.Fail, Detail: "the agent said nothing about it"}
		}
		report.Verdicts = append(report.Verdicts, v)
	}
	if v, failed := report.Failed(); failed {
		report.Hint = hints.Of[v.ID]
	}
}

// noProbe judges a result without verdicts.
func noProbe(report *sandbox.ProbeReport, result *wire.Result, hints Hints) {
	if result.Failure != nil && result.Failure.Code == wire.CodeWireVersion {
		otherWire(report, result.Failure.Detail, hints)
		return
	}
	_, fault := bundle.Output(result, nil)
	if fault == nil {
		fault = &sandbox.Error{Kind: sandbox.ResultInvalid, Detail: fmt.Sprintf("a probe can't end as %q", result.Ending)}
	}
	neverStarted(report, fault, hints)
}

// WallHeld says in a probe's result, which claims no memory wall, that there is
// one: an earlier instance was ended whole when a child took more than limit
// MiB, so that nobody was left in it to answer.
func WallHeld(result *wire.Result, limit int64) {
	if result.Probe == nil {
		return
	}
	for i, v := range result.Probe.Verdicts {
		if v.ID == wire.AssertMemory && v.Outcome == wire.NotClaimed {
			v.Outcome, v.Detail = wire.Pass, fmt.Sprintf("a whole sandbox was ended when a child took more than %d MiB", limit)
			result.Probe.Verdicts[i] = v
		}
	}
}
