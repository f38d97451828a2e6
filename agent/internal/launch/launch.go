package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/launch/stage"
	"github.com/batleforc/batlehub-sandbox/agent/internal/reap"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Spec is one scanner to start.
type Spec struct {
	// Argv is executed directly, without a shell. A bare argv[0] is looked up
	// on Path.
	Argv []string
	// Dir is the working directory.
	Dir string
	// Home and Path are the whole environment: HOME and PATH.
	Home, Path string
	// Closed are directories that the scanner can't reach, where the kernel
	// can close them: absolute and clean.
	Closed []string
	// Limits are set on the scanner alone.
	Limits wire.Limits
	// Stdout and Stderr are the scanner's, still the caller's to close; stdin
	// is /dev/null.
	Stdout, Stderr *os.File
	// Namespace says that everything else in the pid namespace belongs to the
	// run, and ends with it. It is ignored unless the caller is pid 1.
	Namespace bool
}

// Process is a started scanner.
type Process struct {
	pid int
	// report and lifeline belong to a keeper; both are nil for pid 1.
	report, lifeline *os.File

	mu     sync.Mutex
	reaped bool        // the keeper's pid is no longer ours
	last   *time.Timer // ends a keeper that does not react
}

// keeperBound is how long a keeper may take to end everything below it.
const keeperBound = 30 * time.Second

// Start starts the scanner. What is wrong with the program itself wraps
// ErrNotFound or ErrNotExecutable. On an error nothing is left running.
func Start(spec Spec) (*Process, error) {
	program, err := lookUp(spec.Argv[0], spec.Dir, spec.Path)
	if err != nil {
		return nil, err
	}
	stdin, err := emptyInput()
	if err != nil {
		return nil, fmt.Errorf("opening the scanner's stdin: %w", err)
	}
	defer stdin.Close()
	job := jobOf(spec, program)
	stdio := [3]uintptr{stdin.Fd(), spec.Stdout.Fd(), spec.Stderr.Fd()}
	start := startKept
	if spec.Namespace && reap.IsInit() {
		start = startHere
	}
	p, err := start(job, stdio)
	runtime.KeepAlive(spec)
	if failure, ok := errors.AsType[*stage.Failure](err); ok {
		return nil, explain(failure, program, spec.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("starting the scanner: %w", err)
	}
	return p, nil
}

func jobOf(spec Spec, program string) stage.Job {
	return stage.Job{
		Program: program, Argv: spec.Argv, Dir: spec.Dir, Home: spec.Home, Path: spec.Path, Closed: spec.Closed,
		AddressSpace: scaled(spec.Limits.AddressSpaceMB), FileSize: scaled(spec.Limits.FileMB),
		CPU: given(spec.Limits.CPUSeconds), OpenFiles: given(spec.Limits.OpenFiles),
		Processes: given(spec.Limits.Processes), DieWith: -1,
	}
}

// given is a limit that is set when it is positive.
func given(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// scaled is a limit in MiB as bytes; what would pass an int64 is no limit.
func scaled(mb int64) int64 {
	const most = 1<<63 - 1
	if mb > most>>20 {
		return -1
	}
	return given(mb) << 20
}

// emptyInput is /dev/null, or in a room without one a pipe nobody writes to.
func emptyInput() (*os.File, error) {
	f, err := os.Open(os.DevNull)
	if err == nil {
		return f, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return read, write.Close()
}

// startHere is for pid 1: the scanner is its own child.
func startHere(job stage.Job, stdio [3]uintptr) (*Process, error) {
	pid, err := stage.Start(job, stdio)
	if err != nil {
		return nil, err
	}
	return &Process{pid: pid}, nil
}

// startKept is for every other program: the scanner is a keeper's child.
func startKept(job stage.Job, stdio [3]uintptr) (*Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	report, pid, err := stage.StartKeeper(job, stdio, read)
	if err != nil {
		write.Close()
		return nil, err
	}
	p := &Process{pid: pid, report: report, lifeline: write}
	r, err := stage.ReadRecord(report)
	if err == nil && r.Kind == stage.Runs {
		return p, nil
	}
	p.Kill()
	_ = p.collectKeeper()
	if err != nil {
		return nil, fmt.Errorf("the keeper said nothing: %w", err)
	}
	return nil, &stage.Failure{Step: r.Step, Errno: r.Errno}
}

// Kill ends the scanner and everything it started. Wait tells when that is
// done. It may be called more than once, and at any time.
func (p *Process) Kill() {
	if p.lifeline == nil {
		reap.Namespace()
		return
	}
	p.lifeline.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.last != nil {
		return
	}
	// A scanner may have stopped its keeper, and may go on doing so; when the
	// keeper is killed the scanner dies with it.
	_ = unix.Kill(p.pid, unix.SIGCONT)
	p.last = time.AfterFunc(keeperBound, func() { p.signalKeeper(unix.SIGKILL) })
}

func (p *Process) signalKeeper(s unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(p.pid, s)
	}
}

// Wait returns when the scanner has ended, by itself or by Kill, and
// everything that it started has been ended and reaped.
func (p *Process) Wait() (reap.Exit, error) {
	if p.report == nil {
		exit, err := reap.All(p.pid, reap.Namespace)
		return exit, wrap("reaping the scanner", err)
	}
	defer p.Kill()
	r, err := stage.ReadRecord(p.report)
	if wait := p.collectKeeper(); err == nil {
		err = wait
	}
	switch {
	case err != nil:
		return reap.Exit{}, fmt.Errorf("waiting for the scanner's keeper: %w", err)
	case r.Kind == stage.Failed:
		return reap.Exit{}, fmt.Errorf("%s: %w", r.Step, r.Errno)
	case r.Left:
		return r.Exit, fmt.Errorf("reaping the scanner: %w", reap.ErrLeft)
	}
	return r.Exit, nil
}

// collectKeeper reaps the keeper and nothing else.
func (p *Process) collectKeeper() error {
	p.report.Close()
	// Waited for without reaping first, so that no signal meets a pid that
	// has been given away.
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		p.last.Stop()
	}
	p.reaped = true
	_, reap := syscall.Wait4(p.pid, nil, 0, nil)
	return errors.Join(err, reap)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
