package bwrap

import (
	"context"
	"net/netip"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Name is the runtime's name in configuration.
const Name = "bwrap"

// Defaults of a Config.
const (
	// DefaultBinary is looked up on PATH.
	DefaultBinary = "bwrap"
	// DefaultRooms holds one tree per scanner.
	DefaultRooms = "/opt/sandbox"
)

// Config configures the runtime.
type Config struct {
	// Binary is bwrap: a path, or a name looked up on PATH.
	Binary string
	// Rooms is the directory with one tree per scanner, named after it.
	Rooms string
	// RunDir is the directory in which each run gets its own; empty means the
	// system's temporary directory. It must be searchable by uid 65532 when
	// this process is root.
	RunDir string
	// Canaries are addresses that no run without network may reach.
	Canaries []netip.AddrPort
	// Worker is the id that probes are labelled with.
	Worker string
}

// Runtime implements sandbox.Runtime.
type Runtime struct{ config Config }

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns the runtime. Nothing is started and nothing on the host is
// looked at: a missing or refused bwrap is a failed probe and a failed run.
func New(c Config) (*Runtime, error) { return &Runtime{config: c}, nil }

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (*Runtime) Run(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
	return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Runtime: Name}
}

// Probe implements sandbox.Runtime.
func (*Runtime) Probe(context.Context, sandbox.Room) (sandbox.ProbeReport, error) {
	return sandbox.ProbeReport{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Runtime: Name}
}

// Sweep implements sandbox.Runtime.
func (*Runtime) Sweep(context.Context, sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	return sandbox.SweepReport{}, nil
}

// Close implements sandbox.Runtime.
func (*Runtime) Close() error { return nil }
