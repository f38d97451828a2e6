package bwrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// probeStart is how long bwrap may take to get the agent of a probe running. It
// takes milliseconds; a bwrap that hangs is to be told from that soon.
const probeStart = 10 * time.Second

// Probe implements sandbox.Runtime: one ordinary run, whose manifest asks for
// the walls.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report := sandbox.ProbeReport{Runtime: Name, Room: room}
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	began := time.Now()
	answer, fault := r.run(ctx, sandbox.RunSpec{StartTimeout: probeStart}, m)
	report.Duration = time.Since(began)
	switch {
	case fault != nil && (fault.Kind == sandbox.Cancelled || fault.Code == sandbox.CodeNoSpace):
		return report, named(fault, m.Label)
	case otherRelease(fault):
		report.Verdicts, report.Hint = otherWire(fault.Err.Error())
	case fault != nil:
		report.Verdicts, report.Hint = neverStarted(fault)
	default:
		r.judge(&report, answer.result)
	}
	return report, nil
}

// neverStarted is the one verdict of a probe that brought nothing back.
func neverStarted(fault *sandbox.Error) ([]wire.Verdict, string) {
	detail := fault.Detail
	if fault.Err != nil {
		detail = strings.TrimPrefix(detail+": "+fault.Err.Error(), ": ")
	}
	if detail == "" {
		detail = string(fault.Kind)
	}
	if line := lastLine(fault.Stderr); line != "" {
		detail += fmt.Sprintf(": %q", line)
	}
	hint := fault.Hint
	if hint == "" || hint == docs {
		hint = Hint(wire.AssertResult)
	}
	return []wire.Verdict{{ID: wire.AssertResult, Outcome: wire.Fail, Detail: detail}}, hint
}

// otherRelease says whether a result came back that speaks another wire
// version.
func otherRelease(fault *sandbox.Error) bool {
	var version *wire.VersionError
	return fault != nil && errors.As(fault.Err, &version)
}

// otherWire is the probe of a room whose agent is of another release. It
// answered, so there is a result, and nothing in it can be relied on.
func otherWire(detail string) ([]wire.Verdict, string) {
	return []wire.Verdict{
		{ID: wire.AssertResult, Outcome: wire.Pass, Detail: "a result came back"},
		{ID: wire.AssertWire, Outcome: wire.Fail, Detail: detail},
	}, Hint(wire.AssertWire)
}

// judge takes the verdicts of a result: exactly one per assertion, in order. An
// assertion that the agent says nothing about has failed.
func (r *Runtime) judge(report *sandbox.ProbeReport, result *wire.Result) {
	report.Agent = result.Agent
	if result.Probe == nil {
		_, fault := bundle.Output(result, nil)
		if fault == nil {
			fault = &sandbox.Error{Kind: sandbox.ResultInvalid, Detail: fmt.Sprintf("a probe can't end as %q", result.Ending)}
		}
		report.Verdicts, report.Hint = neverStarted(fault)
		if result.Failure != nil && result.Failure.Code == wire.CodeWireVersion {
			report.Verdicts, report.Hint = otherWire(result.Failure.Detail)
		}
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
		report.Hint = Hint(v.ID)
	}
}

// lastLine is the last line of what bwrap printed, on one line.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.Join(strings.Fields(s[strings.LastIndexByte(s, '\n')+1:]), " ")
}
