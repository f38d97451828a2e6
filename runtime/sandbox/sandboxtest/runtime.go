package sandboxtest

import (
	"context"
	"sync"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Runtime is a programmable sandbox.Runtime. Its zero value is not usable; see
// New. The function fields are set before it is used and may be nil.
type Runtime struct {
	// OnRun answers a run. Nil answers with status 0 and no output.
	OnRun func(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error)
	// OnProbe answers a probe. Nil answers that every wall holds.
	OnProbe func(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error)
	// OnSweep answers a sweep. Nil removes nothing.
	OnSweep func(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error)

	name string
	mu   sync.Mutex
	runs []sandbox.RunSpec
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns a runtime of that name.
func New(name string) *Runtime { return &Runtime{name: name} }

// Name implements sandbox.Runtime.
func (r *Runtime) Name() string { return r.name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	r.mu.Lock()
	r.runs = append(r.runs, spec)
	r.mu.Unlock()
	if r.OnRun == nil {
		return Exited(0, nil), nil
	}
	return r.OnRun(ctx, spec)
}

// Probe implements sandbox.Runtime.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	if r.OnProbe == nil {
		return Holds(r.name, room), nil
	}
	return r.OnProbe(ctx, room)
}

// Sweep implements sandbox.Runtime.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	if r.OnSweep == nil {
		return sandbox.SweepReport{}, nil
	}
	return r.OnSweep(ctx, policy)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error { return nil }

// Runs returns the specs of all runs so far, in the order in which they began.
func (r *Runtime) Runs() []sandbox.RunSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sandbox.RunSpec(nil), r.runs...)
}
