package sandboxtest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Runtime is a programmable sandbox.Runtime. Its zero value is not usable; see
// New. The function fields are set before it is used, and each may be nil.
type Runtime struct {
	// OnRun answers a run. Nil runs the program of that name, if there is one
	// (see Handle), and otherwise answers with status 0 and no output.
	OnRun func(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error)
	// OnProbe answers a probe. Nil answers that every wall holds.
	OnProbe func(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error)
	// OnSweep answers a sweep. Nil removes nothing.
	OnSweep func(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error)

	name     string
	mu       sync.Mutex
	programs map[string]Program
	calls    Calls
	closed   bool
	end      context.Context
	close    context.CancelCauseFunc
	running  sync.WaitGroup
	inFlight int
}

// Calls is what a Runtime was asked for, in the order in which it was.
type Calls struct {
	Runs   []sandbox.RunSpec
	Probes []sandbox.Room
	Sweeps []sandbox.SweepPolicy
	// MostAtOnce is the most runs that were in flight at one time.
	MostAtOnce int
	// Closed says that Close was called.
	Closed bool
}

var _ sandbox.Runtime = (*Runtime)(nil)

var errClosed = errors.New("the runtime is closed")

// New returns a runtime of that name.
func New(name string) *Runtime {
	r := &Runtime{name: name, programs: make(map[string]Program)}
	r.end, r.close = context.WithCancelCause(context.Background())
	return r
}

// Name implements sandbox.Runtime.
func (r *Runtime) Name() string { return r.name }

// Run implements sandbox.Runtime. Like every runtime it refuses a spec that no
// agent could follow, ends when its context or the runtime does, and returns
// no error but a *sandbox.Error that names the runtime and the run.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	ctx, done, err := r.begin(ctx, spec)
	if err != nil {
		return sandbox.RunOutput{}, r.named(err, spec)
	}
	defer done()
	out, err := r.answer(ctx, spec)
	if cause := context.Cause(ctx); cause != nil && err == nil {
		out, err = sandbox.RunOutput{}, cause
	}
	return out, r.named(err, spec)
}

func (r *Runtime) answer(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	if r.OnRun != nil {
		return r.OnRun(ctx, spec)
	}
	return r.play(ctx, spec)
}

func (r *Runtime) begin(ctx context.Context, spec sandbox.RunSpec) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Runs = append(r.calls.Runs, spec)
	if r.closed {
		return nil, nil, errClosed
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	r.running.Add(1)
	r.inFlight++
	r.calls.MostAtOnce = max(r.calls.MostAtOnce, r.inFlight)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.end, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		r.mu.Lock()
		r.inFlight--
		r.mu.Unlock()
		r.running.Done()
	}, nil
}

// named makes any error the kind of error that a runtime returns.
func (r *Runtime) named(err error, spec sandbox.RunSpec) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*sandbox.Error](err)
	switch {
	case ok:
		named := *e
		e = &named
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errClosed):
		e = &sandbox.Error{Kind: sandbox.Cancelled, Err: err}
	default:
		e = &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Err: err}
	}
	e.Runtime, e.Run = r.name, spec.Label.String()
	return e
}

// Probe implements sandbox.Runtime.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	r.mu.Lock()
	r.calls.Probes = append(r.calls.Probes, room)
	r.mu.Unlock()
	switch err := context.Cause(ctx); {
	case err != nil:
		return sandbox.ProbeReport{}, &sandbox.Error{Kind: sandbox.Cancelled, Runtime: r.name, Err: err}
	case r.OnProbe != nil:
		return r.OnProbe(ctx, room)
	}
	return Holds(r.name, room), nil
}

// Sweep implements sandbox.Runtime.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	r.mu.Lock()
	r.calls.Sweeps = append(r.calls.Sweeps, policy)
	r.mu.Unlock()
	if r.OnSweep == nil {
		return sandbox.SweepReport{}, nil
	}
	return r.OnSweep(ctx, policy)
}

// Close implements sandbox.Runtime: it ends the runs in flight and waits for
// them.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed, r.calls.Closed = true, true
	r.mu.Unlock()
	r.close(errClosed)
	r.running.Wait()
	return nil
}

// Calls returns what the runtime was asked for so far.
func (r *Runtime) Calls() Calls {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls
	c.Runs, c.Probes, c.Sweeps = slices.Clone(c.Runs), slices.Clone(c.Probes), slices.Clone(c.Sweeps)
	return c
}

// Runs returns the specs of all runs so far, in the order in which they began.
func (r *Runtime) Runs() []sandbox.RunSpec { return r.Calls().Runs }
