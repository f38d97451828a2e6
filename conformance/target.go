package conformance

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Capability is something a target may claim. What it claims is checked for
// truth; what it does not claim it must refuse when asked for, where that can
// be asked.
type Capability string

// The core capabilities. A target without one of them is at best partial.
const (
	// Results: statuses, bytes and refusals come back, sealed and whole.
	Results Capability = "results"
	// Timeouts: every wait ends, and a cancelled one leaves nothing.
	Timeouts Capability = "timeouts"
	// Walls: what is inside can't reach, see, change or exhaust what is outside.
	Walls Capability = "walls"
	// Sweep: what earlier workers left is removed, and nothing else.
	Sweep Capability = "sweep"
)

// The capabilities that a target may do without.
const (
	// Network: a run may ask for the network and gets it.
	Network Capability = "network"
	// Images: a run may name the image it is opened from.
	Images Capability = "images"
	// Probe: the walls can be asserted from inside.
	Probe Capability = "probe"
	// MemoryWall: memory is bounded for the sandbox as a whole.
	MemoryWall Capability = "memory-wall"
	// ProcessWall: the number of processes is bounded.
	ProcessWall Capability = "process-wall"
	// Worker: the target can run in a process of its own that the suite kills.
	Worker Capability = "worker"
	// WorkWall: the work directory holds what the policy's MaxBytes says, and
	// no more.
	WorkWall Capability = "work-wall"
	// OuterFilter: a system call filter of the engine's lies below the agent's.
	OuterFilter Capability = "outer-filter"
	// UserNamespace: whoever is inside is nobody of the host's.
	UserNamespace Capability = "user-namespace"
	// Storage: bundles go by a storage endpoint, which a run without network
	// reaches and nothing else.
	Storage Capability = "storage"
)

// Core lists what can't be opted out of.
func Core() []Capability { return []Capability{Results, Timeouts, Walls, Sweep} }

// Target is one runtime, as the suite needs it.
type Target struct {
	// Name is the runtime's name with what it is run with, such as "bwrap" or
	// "oci-podman-mount". Reports are filed under it.
	Name string
	// Capabilities are what the target claims.
	Capabilities []Capability
	// Versions name the programs behind the target.
	Versions map[string]string
	// Command reproduces the run of the suite.
	Command string

	// New makes the runtime. The suite closes it.
	New func(ctx context.Context, setup Setup) (sandbox.Runtime, error)
	// Scanner is Label.Scanner of every run: the room that New prepared.
	Scanner string
	// Image is RunSpec.Image of every run, for runtimes of images.
	Image string
	// ImageOf makes that image, where it is made for each session.
	ImageOf func(ctx context.Context, setup Setup) (string, error)
	// Program returns argv[0] for a program of Setup.Programs inside a room.
	Program func(setup Setup, name string) string
	// Left lists what the target has around on the host at this moment: run
	// directories, containers, pods. A spec after which it grew has a leak.
	// nil where there is nothing to list.
	Left func(setup Setup) ([]string, error)

	// Broken makes a runtime and a room that break one assertion of the probe
	// and nothing else. It returns ErrNotBreakable, wrapped with the reason,
	// where that can't be done here. nil when the target can't break any.
	Broken func(ctx context.Context, setup Setup, id wire.AssertionID) (sandbox.Runtime, sandbox.Room, error)
	// Room is the room to probe.
	Room func(ctx context.Context, setup Setup) (sandbox.Room, error)
	// Smuggled are configurations that an operator could write and that take a
	// wall down; nil when the runtime has no way to be told such a thing.
	Smuggled []Smuggled
	// Another makes an image that differs from Image in one file alone, for
	// runtimes of images.
	Another func(ctx context.Context, setup Setup) (image string, file MarkedFile, err error)
	// Exchange is the directory inside, besides the work directory, through
	// which bundle and result pass; empty when there is none. Nothing of it may
	// be open to the scanner.
	Exchange string

	// Masked are files of the kernel's that everybody may read on a host, and
	// that tell nothing inside; empty when the runtime masks none.
	Masked []string

	// Bound are the places inside that something of the host's is bound at, with
	// the flags that its mount has to have; empty when there are none.
	Bound map[string][]string

	// Unflagged says why the work directory's mount can't be nosuid and nodev;
	// what the flags are for has to be kept by other means then, which is looked
	// at instead. Empty where the mount has them.
	Unflagged string

	// Without are specs that the target does not claim to hold, by id, each with
	// the reason. What is of the core and not claimed makes a report partial.
	Without map[string]string
	// Opaque says that a sandbox has a kernel of its own, so that this host has
	// no process of what is inside; what Left lists tells of a run instead.
	Opaque bool

	// Allowed is the one destination of a run without network: the storage
	// endpoint. The zero value says that there is none.
	Allowed netip.AddrPort
	// Resolvers are whom a run without network may ask for the storage endpoint's
	// name. nil where it has no name, or none that is asked for inside.
	Resolvers []netip.AddrPort
	// Addresses are where this host would look for this session's sandboxes, in
	// networks that it has no interface in. nil where there are no such.
	Addresses func(ctx context.Context, setup Setup) ([]netip.Addr, error)
	// Store is the leaf backend that bundles go by, under the suite's eyes; nil
	// when there is none.
	Store *Store

	// Mutants are runtimes with one wall broken each.
	Mutants []Mutant
	// Worker returns a command that makes one run and waits for it, as a worker
	// process would. The suite kills it. nil when there is none.
	Worker func(setup Setup, run WorkerRun) (*exec.Cmd, error)
	// Orphans is how group O gets at what is left of killed workers. Its zero
	// value is that of a runtime whose instances die with their worker.
	Orphans Orphans
	// Reference makes the runtime that findings are compared with.
	Reference func(ctx context.Context, setup Setup) (sandbox.Runtime, error)
	// Release takes away what New and the others made outside Setup.Dir, such
	// as images. nil when there is nothing.
	Release func(ctx context.Context, setup Setup) error
}

// Smuggled is a configuration that takes a wall down.
type Smuggled struct {
	// Name says what was configured.
	Name string
	// Make makes the runtime and the room to probe. A refusal is an answer too.
	Make func(ctx context.Context, setup Setup) (sandbox.Runtime, sandbox.Room, error)
}

// MarkedFile is a file of an image and how it begins.
type MarkedFile struct{ Path, Content string }

// WorkerRun is the one run of a worker that will be killed. The worker gives
// it an artifact as well, so that there is one to be left behind.
type WorkerRun struct {
	Label                 wire.Label
	Argv                  []string
	StartTimeout, Timeout time.Duration
}

// Orphans is how group O gets at what is left of killed workers.
type Orphans struct {
	// Instance is how the lines of Left begin that name an instance, such as
	// "container "; empty when an instance is a process tree that dies with its
	// worker, so that nothing is ever left to sweep.
	Instance string
	// Plant leaves what a worker leaves that is killed in the middle of the run
	// with that label, which had to be over by deadline.
	Plant func(ctx context.Context, setup Setup, label wire.Label, deadline time.Time) error
	// Bystanders puts things there that look similar and are nobody's orphans.
	Bystanders func(ctx context.Context, setup Setup) (Bystanders, error)
}

// Bystanders are things that no sweep may touch.
type Bystanders struct {
	// Names say what they are.
	Names []string
	// Missing lists which of them are gone.
	Missing func() ([]string, error)
	// Remove takes them away.
	Remove func() error
}

// Claims reports whether the target claims a capability.
func (t *Target) Claims(c Capability) bool { return slices.Contains(t.Capabilities, c) }

// ErrNotBreakable is wrapped by a Target.Broken that can't break an assertion.
var ErrNotBreakable = errors.New("can't be broken here")

// Mutant is a target with one wall broken.
type Mutant struct {
	// Name says what was broken.
	Name string
	// Killer is the spec that must fail because of it.
	Killer string
	// Make returns the target with the wall broken. It may build programs.
	Make func(ctx context.Context) (*Target, error)
}

// Setup is what the suite gives a target to be made from.
type Setup struct {
	// Dir is an existing directory for whatever the target needs. The suite
	// removes it. Every user may traverse it.
	Dir string
	// Programs are the static programs that must be in the room, by name, as
	// paths on this host.
	Programs map[string]string
	// Canaries are addresses that must not answer inside.
	Canaries []netip.AddrPort
	// Worker is the worker id of this session's runs. Every other id that the
	// suite uses ends in "-" and Token too.
	Worker string
	// Token marks everything of this session.
	Token string
}

// Options say how the suite is run.
type Options struct {
	// Programs has the hostile program as "hostile", and a scanner as
	// "gitleaks" where group F is wanted.
	Programs map[string]string
	// Packages are package files for group F.
	Packages []string
	// Focus, where set, selects the specs to run; the others are not run.
	Focus func(Spec) bool
	// WithoutWalls runs the wall specs on a target that claims no walls, and
	// expects them to fail: the negative control.
	WithoutWalls bool
	// Bounds are how long things may take.
	Bounds Bounds
	// Parallel is how many specs may run at once, where specs do not meet.
	Parallel int
	// Log receives one line as each spec ends; nil for silence.
	Log func(report.Spec)
	// Out is where reports are written; empty for nowhere.
	Out string
}

// Bounds are how long things may take. Slow runtimes raise them.
type Bounds struct {
	// Start is the StartTimeout of every run.
	Start time.Duration
	// Run is the Timeout of every run that is meant to end by itself.
	Run time.Duration
	// Short is the Timeout of runs that are meant to be cut off.
	Short time.Duration
	// Grace is how much later than promised a run may return.
	Grace time.Duration
	// Settle is how long something may still be around after a run.
	Settle time.Duration
}

// DefaultBounds are bounds for a runtime on this host.
func DefaultBounds() Bounds {
	return Bounds{Start: 10 * time.Second, Run: 30 * time.Second, Short: 700 * time.Millisecond, Grace: 5 * time.Second, Settle: 5 * time.Second}
}
