package kubernetes

import (
	"context"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Runtime implements sandbox.Runtime and sandbox.JobCloser.
type Runtime struct {
	config Config
	pods   *pods
	runs   inflight.Group
	names  names
	// removal bounds the removal of one pod, and patience how long one that
	// still runs may take to end before it is removed by force.
	removal, patience time.Duration
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
	err := c.check()
	var p *pods
	if err == nil {
		p, err = newPods(c)
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Runtime: Name, Err: err}
	}
	return &Runtime{config: c, pods: p, removal: removalTime, patience: endTime}, nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	answer, fault := r.run(ctx, spec, bundle.Manifest(spec, r.config.Canaries))
	return bundle.Deliver(Name, spec.Label, answer, fault)
}

// job is one run on its way through this package.
type job struct {
	spec     sandbox.RunSpec
	manifest *wire.Manifest
	clock    bundle.Clock
	image    string
}

// run carries one manifest to an agent behind walls and its result back. Its
// errors lack the runtime's and the run's name.
func (r *Runtime) run(ctx context.Context, spec sandbox.RunSpec, m *wire.Manifest) (bundle.Answer, *sandbox.Error) {
	ctx, clock, done, fault := bundle.Begin(ctx, &r.runs, spec, m)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	defer done()
	image, fault := imageOf(spec.Image, r.config.Image)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	return r.open(ctx, &job{spec: spec, manifest: m, clock: clock, image: image})
}

// open stores a run's bundle, runs its pod and takes both away.
func (r *Runtime) open(ctx context.Context, j *job) (bundle.Answer, *sandbox.Error) {
	// The sandboxes' uid is one for all pods of a node, so that the bound would
	// count the processes of all. A node has one of its own (podPidsLimit).
	limited := *j.manifest
	limited.Limits.Processes = 0
	remote, err := r.config.Hop.Create(ctx, bundle.Request{
		Manifest: &limited, Artifact: j.spec.Bundle.Artifact, Deadline: j.clock.Deadline(), Start: j.spec.StartTimeout,
	})
	if err != nil {
		return bundle.Answer{}, fail.Of(err)
	}
	answer, fault := r.carry(ctx, j, remote)
	return answer, fail.Left(fault, remote.Close(ctx))
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

// names are the pods of this runtime that are in flight. The zero value is
// ready.
type names struct {
	mu    sync.Mutex
	taken map[string]bool
}

func (n *names) claim(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken == nil {
		n.taken = make(map[string]bool)
	}
	n.taken[name] = true
}

func (n *names) release(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, name)
}

func (n *names) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taken[name]
}
