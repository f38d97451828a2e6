package kubernetes

import (
	"context"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/verdict"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// ownKernelMB is the memory limit of a probe in a sandbox with a kernel of its
// own, which is charged to the same limit.
const ownKernelMB = 4 * bundle.ProbeWallMB

// Probe implements sandbox.Runtime: one ordinary run, whose manifest asks for
// the walls.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report := sandbox.ProbeReport{Runtime: Name, Room: room}
	began := time.Now()
	m := r.probeManifest(room, true)
	answer, fault := r.probe(ctx, room, m)
	if fault != nil && fault.OOMKilled {
		answer, fault = r.probeAgain(ctx, room, m.Limits.MemoryMB)
	}
	report.Duration = time.Since(began)
	if fault := verdict.Of(&report, answer.Result, fault, verdict.Hints{Of: hints, Docs: docs}); fault != nil {
		return report, fail.Named(fault, Name, m.Label)
	}
	return report, nil
}

func (r *Runtime) probe(ctx context.Context, room sandbox.Room, m *wire.Manifest) (bundle.Answer, *sandbox.Error) {
	return r.run(ctx, sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: m.Policy}, Limits: m.Limits, Label: m.Label,
		Image: room.Image, StartTimeout: room.StartTimeout, Timeout: bundle.ProbeTimeout,
	}, m)
}

func (r *Runtime) probeManifest(room sandbox.Room, wall bool) *wire.Manifest {
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	m.Probe.KubernetesEnv, m.Probe.MemoryWall, m.Probe.OwnKernel = true, wall, r.config.OwnKernel
	most := int64(bundle.ProbeWallMB)
	if r.config.OwnKernel {
		most = ownKernelMB
	}
	m.Limits.MemoryMB = min(m.Limits.MemoryMB, most)
	return m
}

// probeAgain is the probe of a pod that was ended for want of memory when it was
// to run into its limit: a node with cgroup v2 ends all of a container's
// processes together, and nobody is left to answer. The limit has held then.
// What else holds another pod says, which does not try it, and which shows that
// there is memory enough for one.
func (r *Runtime) probeAgain(ctx context.Context, room sandbox.Room, limit int64) (bundle.Answer, *sandbox.Error) {
	answer, fault := r.probe(ctx, room, r.probeManifest(room, false))
	if fault == nil {
		verdict.WallHeld(answer.Result, limit)
	}
	return answer, fault
}
