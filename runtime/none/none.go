package none

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Name is the runtime's name in configuration.
const Name = "none"

// DefaultPath is the scanners' PATH of a configuration that says nothing.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// Config configures the runtime.
type Config struct {
	// Unsafe says that running without walls was asked for by name: a worker
	// sets it from BATLEHUB_UNSAFE_NO_SANDBOX=1 and from nothing else. Without
	// it New refuses, except in a test binary.
	Unsafe bool
	// RunDir is the directory in which each run gets its own; empty means the
	// system's temporary directory.
	RunDir string
	// Path is the scanners' PATH, empty means DefaultPath. The scanners are
	// the host's own programs, wherever the host keeps them.
	Path string
}

// Runtime implements sandbox.Runtime.
type Runtime struct {
	config Config
	store  *bundle.Store
	runs   inflight.Group
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns the runtime, or a *sandbox.Error that refuses it.
func New(c Config) (*Runtime, error) {
	if !c.Unsafe && !testing.Testing() {
		return nil, &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeUnsafe, Runtime: Name,
			Detail: "this runtime has no walls and was not asked for by name",
			Hint:   "choose another runtime, or set BATLEHUB_UNSAFE_NO_SANDBOX=1 to scan hostile files without a sandbox",
		}
	}
	if c.Path == "" {
		c.Path = DefaultPath
	}
	return &Runtime{config: c, store: bundle.NewStore(bundle.Config{Runtime: Name, Parent: c.RunDir})}, nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime. The agent's code runs in this process, the
// scanner as a child of it. There is no network wall, so nothing is checked
// and Network changes nothing; and no limit on processes, which would count
// every process of this user.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	if fault := bundle.RefuseImage(spec.Image); fault != nil {
		return sandbox.RunOutput{}, r.name(fault, spec)
	}
	spec.Limits.Processes = 0
	m := bundle.Manifest(spec, nil)
	ctx, clock, done, fault := bundle.Begin(ctx, &r.runs, spec, m)
	if fault != nil {
		return sandbox.RunOutput{}, r.name(fault, spec)
	}
	defer done()
	dir, err := r.store.Create(ctx, bundle.Request{Manifest: m, Artifact: spec.Bundle.Artifact, Deadline: clock.Deadline()})
	if err != nil {
		return sandbox.RunOutput{}, err
	}
	out, fault := r.carry(ctx, clock, dir)
	return out, r.finish(dir, fault, spec)
}

// carry runs the agent over dir and reads what it left.
func (r *Runtime) carry(ctx context.Context, clock bundle.Clock, dir *bundle.Dir) (sandbox.RunOutput, *sandbox.Error) {
	ctx, cancel := clock.Watch(ctx, dir)
	defer cancel()
	code := agent.Run(ctx, dir.In(), dir.Out(), agent.Options{
		WorkDir: dir.Work(), Home: dir.Work(), Path: r.config.Path,
	})
	if code != agent.ExitStored {
		return sandbox.RunOutput{}, unstored(ctx, dir, code)
	}
	result, stdout, err := dir.Result()
	if err != nil {
		return sandbox.RunOutput{}, bundle.ReadError(err)
	}
	return bundle.Output(result, stdout)
}

// unstored is a run whose agent says that there is no result, which is so
// whatever stands at the result's place.
func unstored(ctx context.Context, dir *bundle.Dir, code agent.ExitCode) *sandbox.Error {
	switch {
	case ctx.Err() != nil:
		return bundle.EndError(ctx, dir)
	case code == agent.ExitStore && dir.Full():
		return &sandbox.Error{
			Kind: sandbox.Crashed, Code: sandbox.CodeNoSpace, Detail: "the result could not be stored",
			Hint: "free space where run directories are made",
		}
	}
	return &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeNoResult,
		Detail: fmt.Sprintf("the agent ended with %d (%s)", int(code), code),
	}
}

// finish removes the run directory, whatever the run came to.
func (r *Runtime) finish(dir *bundle.Dir, fault *sandbox.Error, spec sandbox.RunSpec) error {
	err := dir.Close()
	switch {
	case fault != nil:
		fault.Err = errors.Join(fault.Err, err)
		return r.name(fault, spec)
	case err != nil:
		return r.name(&sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Err: err}, spec)
	}
	return nil
}

func (*Runtime) name(e *sandbox.Error, spec sandbox.RunSpec) error {
	e.Runtime, e.Run = Name, spec.Label.String()
	return e
}

// Probe implements sandbox.Runtime: it says that there is nothing to probe.
func (*Runtime) Probe(_ context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	return sandbox.ProbeReport{Runtime: Name, Room: room, Skipped: "this runtime has no walls to probe"}, nil
}

// Sweep implements sandbox.Runtime. What a killed worker leaves is its run
// directories, and those for a moment only (see runtime/bundle).
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	return r.store.Sweep(ctx, policy)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error {
	r.runs.Close()
	return r.store.Close()
}
