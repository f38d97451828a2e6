package oci

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Runtime implements sandbox.Runtime and sandbox.JobCloser.
type Runtime struct {
	config    Config
	endpoints []endpoint
	store     *bundle.Store
	runs      inflight.Group
	names     names
	engine    engine
	// removal bounds the removal of one container or network.
	removal time.Duration
}

var (
	_ sandbox.Runtime   = (*Runtime)(nil)
	_ sandbox.JobCloser = (*Runtime)(nil)
)

// New returns the runtime, or a *sandbox.Error that refuses its configuration.
// Nothing is started and nothing on the host is looked at: a missing engine is
// a failed probe and a failed run. The hop stays the caller's to close.
func New(c Config) (*Runtime, error) {
	c = c.withDefaults()
	endpoints, err := c.check()
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Runtime: Name, Err: err}
	}
	r := &Runtime{config: c, endpoints: endpoints, removal: removalTime}
	r.engine = engine{config: c, env: environ(c)}
	// Whom the files of a run belong to is settled once the engine is known.
	r.store = bundle.NewStore(bundle.Config{Runtime: Name, Parent: c.RunDir})
	return r, nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	m := bundle.Manifest(spec, r.config.Canaries)
	if spec.Network && r.config.EgressPool.IsValid() {
		m.Canaries = r.kept()
	}
	answer, fault := r.run(ctx, spec, m)
	return bundle.Deliver(Name, spec.Label, answer, fault)
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
	host, fault := r.engine.find(ctx)
	if fault == nil {
		fault = r.refuse(host, spec)
	}
	if fault != nil {
		return bundle.Answer{}, fault
	}
	release, fault := r.names.claim(ContainerName(spec.Label))
	if fault != nil {
		return bundle.Answer{}, fault
	}
	defer release()
	return r.open(ctx, &job{spec: spec, manifest: m, clock: clock, host: host, image: image})
}

// job is one run on its way through this package.
type job struct {
	spec     sandbox.RunSpec
	manifest *wire.Manifest
	clock    bundle.Clock
	host     *host
	image    string
	// started says that the container was seen running.
	started atomic.Bool
}

func (j *job) name() string { return ContainerName(j.spec.Label) }

// open makes what a run's container needs, runs it and takes all of it away.
func (r *Runtime) open(ctx context.Context, j *job) (bundle.Answer, *sandbox.Error) {
	parcel, fault := r.pack(ctx, j)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	in := Instance{
		Image: j.image, In: parcel.In(), Out: parcel.Out(), Mount: parcel.mount(),
		Deadline: j.clock.Deadline(), Lifetime: time.Until(j.clock.Deadline()) + slack,
	}
	fault = r.join(ctx, j, &in)
	var answer bundle.Answer
	if fault == nil {
		answer, fault = r.carry(ctx, j, parcel, in)
		fault = fail.Left(fault, r.leave(ctx, j, in))
	}
	return answer, fail.Left(fault, parcel.Close(ctx))
}

// slack is how much longer than its run a container may live by its own
// clock: the worker's own end of the run must come first.
const slack = 30 * time.Second

// CloseJob implements sandbox.JobCloser.
func (r *Runtime) CloseJob(ctx context.Context, worker, job string) error {
	if r.config.Hop == nil {
		return nil
	}
	return r.config.Hop.CloseJob(ctx, worker, job)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error {
	r.runs.Close()
	return r.store.Close()
}

// DefaultCanaries is one address that everybody with a network reaches.
var DefaultCanaries = []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:53")}

var errNoHop = errors.New("the storage transport needs a storage backend")
