package kubernetes

import (
	"context"
	"errors"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Runtime implements sandbox.Runtime and sandbox.JobCloser.
type Runtime struct {
	config Config
	runs   inflight.Group
}

var (
	_ sandbox.Runtime   = (*Runtime)(nil)
	_ sandbox.JobCloser = (*Runtime)(nil)
)

// New returns the runtime, or a *sandbox.Error that refuses its configuration.
// Nothing is asked of the cluster: an API server that does not answer is a
// failed probe and a failed run. The hop stays the caller's to close.
func New(c Config) (*Runtime, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Runtime: Name, Err: err}
	}
	return &Runtime{config: c}, nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

var errSkeleton = errors.New("this runtime is being written")

// Run implements sandbox.Runtime.
func (r *Runtime) Run(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
	return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeInternal, Runtime: Name, Err: errSkeleton}
}

// Probe implements sandbox.Runtime: one ordinary run, whose manifest asks for
// the walls.
func (r *Runtime) Probe(context.Context, sandbox.Room) (sandbox.ProbeReport, error) {
	return sandbox.ProbeReport{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeInternal, Runtime: Name, Err: errSkeleton}
}

// Sweep implements sandbox.Runtime. It removes pods, then the bundles of runs:
// the second are of no use without the first.
func (r *Runtime) Sweep(context.Context, sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	return sandbox.SweepReport{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeInternal, Runtime: Name, Err: errSkeleton}
}

// CloseJob implements sandbox.JobCloser.
func (r *Runtime) CloseJob(ctx context.Context, worker, job string) error {
	return r.config.Hop.CloseJob(ctx, worker, job)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error {
	r.runs.Close()
	return nil
}
