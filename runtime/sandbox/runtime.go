package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Runtime runs one command over one bundle behind walls.
//
// All methods are safe for concurrent use. Each run gets a fresh instance (a
// process tree, a container, a pod) that does not outlive it, and no two runs
// see a common file system. A runtime never replaces itself by a weaker one:
// what it can't do it refuses.
//
// A cancelled context leaves nothing behind: no process, container, pod,
// directory or key. Clean-up therefore runs under a context of its own.
type Runtime interface {
	// Name is the runtime's name in configuration, metrics and errors, such
	// as "bwrap". It is constant.
	Name() string

	// Run creates an instance, hands it the bundle, waits for its end and
	// brings the result back, in at most StartTimeout plus Timeout. What the
	// scanner or the policy answered is in the RunOutput, whatever the exit
	// status; an error is always an *Error and says that there is no answer.
	Run(ctx context.Context, spec RunSpec) (RunOutput, error)

	// Probe asserts the walls of one room from inside. It returns an error
	// only when it could not be carried out for a reason that says nothing
	// about the walls, such as a cancelled context; an instance that never
	// started is a report whose AssertResult failed.
	Probe(ctx context.Context, room Room) (ProbeReport, error)

	// Sweep removes what earlier workers left behind, and nothing else.
	Sweep(ctx context.Context, policy SweepPolicy) (SweepReport, error)

	// Close ends what the runtime holds. Runs in flight are cancelled.
	Close() error
}

// RunSpec is one run. It is data: no path of the caller's host is part of it,
// so that a runtime that shares no file system with the caller is a peer.
type RunSpec struct {
	// Bundle is what the scanner is given.
	Bundle Bundle
	// Argv is executed directly, without a shell.
	Argv []string
	// StartTimeout bounds the time until the agent has fetched its bundle.
	StartTimeout time.Duration
	// Timeout bounds extraction and scanner together.
	Timeout time.Duration
	// Network says whether the scanner may reach anything.
	Network bool
	// Limits bound the scanner.
	Limits wire.Limits
	// Image is the room for runtimes that run images; empty means the
	// runtime's default.
	Image string
	// Label says whose run this is; Label.Scanner also names the room for
	// runtimes that keep one tree per scanner.
	Label wire.Label
}

// Bundle is what a run is given. An entry whose URL is wire.ArtifactURL stands
// for Artifact; all others are inline.
type Bundle struct {
	Entries []wire.Entry
	Policy  wire.ExtractPolicy
	// Artifact is the one large input; nil when no entry asks for it.
	Artifact Artifact
}

// Artifact is the bytes under scan, wherever they are.
type Artifact interface {
	// Key is the logical key under which a cache may hold the artifact
	// already; empty when none can.
	Key() string
	// Size is the exact length in bytes.
	Size() int64
	// Open returns the bytes from their beginning. It may be called more than
	// once, and concurrently.
	Open(ctx context.Context) (io.ReadCloser, error)
}

// RunOutput is the answer of a run.
type RunOutput struct {
	// Status is the scanner's exit status; nil when a signal killed it or the
	// artifact was refused before it could start.
	Status *int
	// Stdout is everything that the scanner printed, never truncated.
	Stdout []byte
	// StderrTail is the end of what it printed to stderr.
	StderrTail string
	// Result is the agent's full report.
	Result wire.Result
}

// Refused returns why the artifact was refused, or nil when it was not.
func (o RunOutput) Refused() *wire.Refusal { return o.Result.Refusal }

// Room is what a scanner is run in: one image, or one tree.
type Room struct {
	// Scanner names the room's scanner.
	Scanner string
	// Image is the image, for runtimes that run images.
	Image string
	// Commands are the programs that the room must hold.
	Commands []string
	// WorkerRoom says that this is the worker's own image, in which a shell
	// and the worker's program are expected.
	WorkerRoom bool
	// Limits are what the memory wall is probed at, where one is claimed.
	Limits wire.Limits
	// StartTimeout bounds the time until the agent has fetched its manifest,
	// pulling the image included, for runtimes that run images; 0 means the
	// default of a run.
	StartTimeout time.Duration
}

// SweepPolicy says what is an orphan. The two questions are all there is: is
// it this worker's, and is it older than any run may be?
type SweepPolicy struct {
	// Worker is the id of this worker: its instances are orphans at any age,
	// except those of runs that this Runtime has in flight.
	Worker string
	// OlderThan makes any worker's instance an orphan, counted from its
	// deadline.
	OlderThan time.Duration
}

// SweepReport lists what a sweep removed.
type SweepReport struct {
	Removed []Orphan
}

// Orphan is one thing that a sweep removed.
type Orphan struct {
	// Kind is "pod", "container", "network", "bundle", "directory" or "cgroup".
	Kind string
	// Name is the name it had.
	Name string
	// Worker is the id of the worker that made it, where that is known.
	Worker string
	// Age is how long ago it was made.
	Age time.Duration
}
