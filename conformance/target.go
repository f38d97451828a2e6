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
	Room func(setup Setup) sandbox.Room
	// Mutants are runtimes with one wall broken each.
	Mutants []Mutant
	// Worker returns a command that makes one run of argv and waits for it,
	// as a worker process would. The suite kills it. nil when there is none.
	Worker func(setup Setup, argv []string) (*exec.Cmd, error)
	// Reference makes the runtime that findings are compared with.
	Reference func(ctx context.Context, setup Setup) (sandbox.Runtime, error)
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
