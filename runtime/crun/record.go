package crun

import (
	"context"
	"errors"
	"runtime"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/crun/record"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Recording is what a traced run came to.
type Recording struct {
	// Output is the run's answer.
	Output sandbox.RunOutput
	// Calls are the system calls that agent and scanner made, sorted.
	Calls []string
}

// Profile is the recording's seccomp profile as a file for Config.Profiles,
// and the digest that pins it. others are further recordings of the same
// scanner: one run shows what one input needs.
func (r Recording) Profile(others ...Recording) (file []byte, pin string, err error) {
	calls := r.Calls
	for _, o := range others {
		calls = append(calls[:len(calls):len(calls)], o.Calls...)
	}
	p, err := record.Profile(calls, runtime.GOARCH)
	if err != nil {
		return nil, "", err
	}
	return record.Encode(p)
}

// Record makes one run with strace, at that path or on PATH, attached to the
// container from its agent's first instruction on. Everything else is as it is
// in Run: the agent is pid 1, and the same profile and limits hold. It is many
// times as slow, which the spec's timeouts have to allow for. runsc can't be
// recorded: its sandboxes make no system call of their own.
func (r *Runtime) Record(ctx context.Context, spec sandbox.RunSpec, strace string) (Recording, error) {
	recording, fault := r.record(ctx, spec, bundle.Manifest(spec, r.config.Canaries), strace)
	if fault != nil {
		return recording, fail.Named(fault, Name, spec.Label)
	}
	return recording, nil
}

// RecordProbe is Record for a probe of a room. A scanner's own profile holds in
// its probes too, and so has to have what an agent calls to assert the walls.
func (r *Runtime) RecordProbe(ctx context.Context, room sandbox.Room, strace string) (Recording, error) {
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	m.Probe.MemoryWall = true
	m.TimeoutMS *= probesSlower
	recording, fault := r.record(ctx, sandbox.RunSpec{StartTimeout: probesSlower * probeStart}, m, strace)
	if fault != nil {
		return recording, fail.Named(fault, Name, m.Label)
	}
	return recording, nil
}

// probesSlower is how many times longer a probe may take while it is traced.
const probesSlower = 5

func (r *Runtime) record(ctx context.Context, spec sandbox.RunSpec, m *wire.Manifest, strace string) (Recording, *sandbox.Error) {
	tracer, err := lookPath(strace)
	if err != nil {
		return Recording{}, noEngine("strace, which records, can't be found", err, "install strace")
	}
	var calls []string
	answer, fault := r.runWith(ctx, spec, m, false,
		func(ctx context.Context, e engine, g group, dir *bundle.Dir, name string) (process.Exit, error) {
			var exit process.Exit
			var err error
			calls, exit, err = e.trace(ctx, tracer, g, dir.Path(), name)
			return exit, err
		})
	if fault != nil {
		if _, is := errors.AsType[*traceError](fault.Err); is {
			fault.Detail = "recording the run"
		}
		return Recording{}, fault
	}
	if m.Probe != nil {
		return Recording{Output: sandbox.RunOutput{Result: *answer.Result}, Calls: calls}, nil
	}
	out, fault := bundle.Output(answer.Result, answer.Stdout)
	return Recording{Output: out, Calls: calls}, fault
}
