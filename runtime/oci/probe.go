package oci

import (
	"context"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/verdict"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Probe implements sandbox.Runtime: one ordinary run, whose manifest asks for
// the walls. The engine is asked anew what it is: it may have been changed.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report := sandbox.ProbeReport{Runtime: Name, Room: room}
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	r.engine.forget()
	if h, fault := r.engine.find(ctx); fault == nil {
		// A rootless engine limits nothing under cgroup v1, and says so.
		m.Probe.MemoryWall = !h.unlimited
	}
	m.Limits.MemoryMB = min(m.Limits.MemoryMB, bundle.ProbeWallMB)
	spec := sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: m.Policy}, Limits: m.Limits, Label: m.Label,
		Image: room.Image, StartTimeout: room.StartTimeout, Timeout: bundle.ProbeTimeout,
	}
	began := time.Now()
	answer, fault := r.run(ctx, spec, m)
	report.Duration = time.Since(began)
	if fault := verdict.Of(&report, answer.Result, fault, verdict.Hints{Of: hints, Docs: docs}); fault != nil {
		return report, fail.Named(fault, Name, m.Label)
	}
	return report, nil
}
