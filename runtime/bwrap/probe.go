package bwrap

import (
	"context"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/verdict"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
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
	if fault := verdict.Of(&report, answer.Result, fault, verdict.Hints{Of: hints, Docs: docs}); fault != nil {
		return report, fail.Named(fault, Name, m.Label)
	}
	return report, nil
}
