package bwrap

import (
	"context"
	"net/netip"
	"os"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
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

// DefaultCanaries is one address that everybody with a network reaches.
var DefaultCanaries = []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:53")}

// UID is the uid and gid that every sandbox sees itself as. A worker that is
// root also runs bwrap as this uid: bwrap maps the uid it has, and a sandbox's
// 65532 would be the host's root otherwise, able to open what root may open.
const UID = 65532

// Config configures the runtime.
type Config struct {
	// Binary is bwrap: a path, or a name looked up on PATH.
	Binary string
	// Rooms is the directory with one tree per scanner, named after it.
	Rooms string
	// RunDir is the directory in which each run gets its own; empty means the
	// system's temporary directory. If this process is root, UID has to be
	// able to pass through it.
	RunDir string
	// Canaries are addresses that no run without network may reach; nil means
	// DefaultCanaries. Without any, a probe could not see its network wall.
	Canaries []netip.AddrPort
	// Worker is the id that probes are labelled with; empty means "probe".
	Worker string
}

// Runtime implements sandbox.Runtime.
type Runtime struct {
	config Config
	uid    int
	proc   string
	store  *bundle.Store
	runs   inflight.Group
	engine engine
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns the runtime. Nothing is started and nothing on the host is
// looked at: a missing or refused bwrap is a failed probe and a failed run.
func New(c Config) (*Runtime, error) {
	for _, canary := range c.Canaries {
		if _, err := wire.ParseCanary(canary.String()); err != nil {
			return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Runtime: Name, Err: err}
		}
	}
	if c.Canaries == nil {
		c.Canaries = DefaultCanaries
	}
	if c.Binary == "" {
		c.Binary = DefaultBinary
	}
	if c.Rooms == "" {
		c.Rooms = DefaultRooms
	}
	if c.Worker == "" {
		c.Worker = "probe"
	}
	r := &Runtime{config: c, proc: "/proc"}
	if os.Geteuid() == 0 {
		r.uid = UID
	}
	r.store = bundle.NewStore(bundle.Config{Runtime: Name, Parent: c.RunDir, UID: r.uid, GID: r.uid})
	return r, nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	if fault := bundle.RefuseImage(spec.Image); fault != nil {
		return sandbox.RunOutput{}, fail.Named(fault, Name, spec.Label)
	}
	answer, fault := r.run(ctx, spec, bundle.Manifest(spec, r.config.Canaries))
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
	room, fault := roomOf(r.config.Rooms, m.Label.Scanner)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	binary, fault := r.engine.find(ctx, r.config.Binary)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	dir, err := r.store.Create(ctx, bundle.Request{
		Manifest: m, Artifact: spec.Bundle.Artifact, Inside: workDir, Deadline: clock.Deadline(),
	})
	if err != nil {
		return bundle.Answer{}, fail.Of(err)
	}
	answer, fault := r.carry(ctx, clock, dir, spec, binary, room)
	return answer, fail.Left(fault, dir.Close())
}

// Sweep implements sandbox.Runtime. What a killed worker leaves is its run
// directories, and those for a moment only (see runtime/bundle); its processes
// die with it.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	return r.store.Sweep(ctx, policy)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error {
	r.runs.Close()
	return r.store.Close()
}
