package crun

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/verdict"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Name is the runtime's name in configuration.
const Name = "crun"

// docs is where an operator reads on.
const docs = "see docs/crun.md"

// Defaults of a Config.
const (
	// DefaultProgram is looked up on PATH.
	DefaultProgram = "crun"
	// DefaultRooms holds one tree per scanner.
	DefaultRooms = "/opt/sandbox"
	// DefaultStateDir is where bundles and the program's own state are.
	DefaultStateDir = "/var/lib/batlehub-sandbox/crun"
)

// DefaultCanaries is one address that everybody with a network reaches.
var DefaultCanaries = []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:53")}

// Reaper is a pid 1's: see Config.Reaper.
type Reaper = process.Reaper

// Profile is a scanner's own seccomp profile.
type Profile struct {
	// Path is its file, in the form of linux.seccomp of a config.json.
	Path string
	// SHA256 is the digest of the file's bytes: "sha256:" and hexadecimal
	// digits.
	SHA256 string
}

// Config configures the runtime.
type Config struct {
	// Program is crun, runc or runsc: a path, or a name looked up on PATH.
	Program string
	// Flavour says which of them it is; empty means that it is asked.
	Flavour Flavour
	// StateDir is a directory of the worker's own for bundles and for the
	// program's state, absolute. It is made if it is missing, but nothing
	// above it is.
	StateDir string
	// Rooms is the directory with one tree per scanner, named after it.
	Rooms string
	// Digests has the pinned digest of each scanner's room (see Digest). A
	// room that is not in it has its digest in a file beside it (see WritePin).
	Digests map[string]string
	// User is whom the agent runs as inside, "uid:gid"; empty means 65532 for
	// both.
	User string
	// UsernsBase is the host's id of a sandbox's id 0, with 65535 more after
	// it that nobody has; 0 means DefaultUsernsBase.
	UsernsBase uint32
	// CgroupParent is the cgroup below which each run has its own, from the
	// hierarchy's root.
	CgroupParent string
	// CPUMilli is how much of the CPUs a run may use at once, in thousandths
	// of one; 0 means DefaultCPUMilli.
	CPUMilli int64
	// Profiles has a seccomp profile of its own for some scanners, which
	// replaces the one of all others.
	Profiles map[string]Profile
	// NoPivot has the program not use pivot_root, for a root that it can't
	// leave and that is not recognised as such.
	NoPivot bool
	// Canaries are addresses that no sandbox may reach; nil means
	// DefaultCanaries.
	Canaries []netip.AddrPort
	// Worker is the id that probes are labelled with; empty means "probe".
	Worker string
	// Reaper keeps a pid 1 that reaps from taking the end of this runtime's
	// children; nil where nobody does.
	Reaper Reaper
}

// Runtime implements sandbox.Runtime.
type Runtime struct {
	config   Config
	uid, gid uint32
	host     host
	finder   finder
	rooms    rooms
	runs     inflight.Group

	mu     sync.Mutex
	stores map[Flavour]*bundle.Store
	// swap says for each flavour whose cgroups were tried since the last probe
	// that they can be used, and whether they limit swap.
	swap map[Flavour]bool
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New returns the runtime. Nothing is started and nothing on the host is
// looked at: a host that can't carry it is a failed probe and a failed run.
func New(c Config) (*Runtime, error) {
	c = c.withDefaults()
	r := &Runtime{
		config: c,
		finder: finder{reaper: c.Reaper, flavour: c.Flavour},
		rooms:  rooms{dir: c.Rooms, digests: c.Digests, base: c.UsernsBase},
		stores: make(map[Flavour]*bundle.Store),
		swap:   make(map[Flavour]bool),
	}
	var err error
	if r.uid, r.gid, err = ParseUser(c.User); err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Runtime: Name, Err: err, Hint: docs}
	}
	return r, nil
}

func (c Config) withDefaults() Config {
	text := func(s *string, otherwise string) {
		if *s == "" {
			*s = otherwise
		}
	}
	text(&c.Program, DefaultProgram)
	text(&c.StateDir, DefaultStateDir)
	text(&c.Rooms, DefaultRooms)
	text(&c.CgroupParent, DefaultCgroupParent)
	text(&c.User, fmt.Sprintf("%d:%d", DefaultUID, DefaultUID))
	text(&c.Worker, "probe")
	if c.UsernsBase == 0 {
		c.UsernsBase = DefaultUsernsBase
	}
	if c.CPUMilli == 0 {
		c.CPUMilli = DefaultCPUMilli
	}
	if c.Canaries == nil {
		c.Canaries = DefaultCanaries
	}
	return c
}

func (c Config) check() error {
	for _, canary := range c.Canaries {
		if _, err := wire.ParseCanary(canary.String()); err != nil {
			return err
		}
	}
	if err := parseFlavour(c.Flavour); err != nil {
		return err
	}
	if c.CPUMilli < 0 {
		return fmt.Errorf("cpu is %d thousandths, want more than 0", c.CPUMilli)
	}
	parent := c.CgroupParent
	if path.IsAbs(parent) || path.Clean(parent) != parent || parent == "." || strings.HasPrefix(parent, "..") ||
		strings.ContainsAny(parent, " \t\n\\") {
		return fmt.Errorf("the cgroup parent %.64q is not a clean relative path", parent)
	}
	if !filepath.IsAbs(c.StateDir) || filepath.Clean(c.StateDir) != c.StateDir || c.StateDir == "/" {
		return fmt.Errorf("the state directory %.128q is not a clean absolute path", c.StateDir)
	}
	return nil
}

// Name implements sandbox.Runtime.
func (*Runtime) Name() string { return Name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	fault := bundle.RefuseImage(spec.Image)
	if fault == nil && spec.Network {
		fault = &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeConfig,
			Detail: "the run asks for a network, and this runtime's sandboxes never have one",
			Hint:   "use the oci or kubernetes runtime for scanners that need a network",
		}
	}
	if fault != nil {
		return sandbox.RunOutput{}, fail.Named(fault, Name, spec.Label)
	}
	answer, fault := r.run(ctx, spec, bundle.Manifest(spec, r.config.Canaries), false)
	return bundle.Deliver(Name, spec.Label, answer, fault)
}

// probeStart is how long the program may take to get the agent of a probe
// running. It takes a tenth of a second at most; one that hangs is to be told
// from that soon.
const probeStart = 20 * time.Second

// probeWallMB is the highest memory limit that a probe runs into, in MiB.
// gVisor's own kernel is charged to the same limit and needs room beside it
// (seen: it ended a sandbox of 192 MiB whole, and one of 1,024 MiB not).
func probeWallMB(f Flavour) int64 {
	if f == Runsc {
		return 4 * bundle.ProbeWallMB
	}
	return bundle.ProbeWallMB
}

// Probe implements sandbox.Runtime: one ordinary run, whose manifest asks for
// the walls, after a look at everything that was remembered of the host.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report := sandbox.ProbeReport{Runtime: Name, Room: room}
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	m.Probe.MemoryWall = true
	began := time.Now()
	answer, fault := r.run(ctx, sandbox.RunSpec{StartTimeout: probeStart}, m, true)
	if fault != nil && fault.OOMKilled && m.Probe.OwnKernel {
		answer, fault = r.probeAgain(ctx, room)
	}
	report.Duration = time.Since(began)
	if fault := verdict.Of(&report, answer.Result, fault, verdict.Hints{Of: hints, Docs: docs}); fault != nil {
		return report, fail.Named(fault, Name, m.Label)
	}
	return report, nil
}

// probeAgain is the probe of a sandbox that was ended for want of memory when
// it was to run into its limit: gVisor's kernel holds all of a sandbox's memory,
// and where the host's ends that and not the child, nobody is left to answer.
// The limit has held then. What else holds another sandbox says, which does not
// try it, and which shows that there is memory enough for one.
func (r *Runtime) probeAgain(ctx context.Context, room sandbox.Room) (bundle.Answer, *sandbox.Error) {
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	answer, fault := r.run(ctx, sandbox.RunSpec{StartTimeout: probeStart}, m, false)
	if fault == nil {
		verdict.WallHeld(answer.Result, m.Limits.MemoryMB)
	}
	return answer, fault
}

// Sweep implements sandbox.Runtime: what a killed worker leaves is a
// container that runs on, its bundle, its mount and its cgroup. They are found
// by the bundles in this runtime's own state directory. A worker that is killed
// before its first run may leave an empty cgroup, which is nobody's then.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	var faults []error
	// What is no directory has nothing in it, and is the next run's to refuse.
	info, err := os.Lstat(r.config.StateDir)
	stated := err == nil && info.IsDir()
	for _, f := range Flavours {
		if stated {
			got, err := r.store(f).Sweep(ctx, policy)
			report.Removed = append(report.Removed, got.Removed...)
			faults = append(faults, err)
		}
		if l, fault := r.host.layout(f); fault == nil {
			l.removeTried(r.config.CgroupParent)
		}
	}
	faults = append(faults, r.forget())
	return report, errors.Join(faults...)
}

// Close implements sandbox.Runtime.
func (r *Runtime) Close() error {
	r.runs.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	var faults []error
	for _, s := range r.stores {
		faults = append(faults, s.Close())
	}
	faults = append(faults, r.forget())
	for _, f := range Flavours {
		if l, fault := r.host.layout(f); fault == nil {
			l.removeParent(r.config.CgroupParent)
		}
	}
	return errors.Join(faults...)
}
