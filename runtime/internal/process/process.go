package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// DefaultTail is how many bytes of the end of a child's stderr are kept.
const DefaultTail = 8 << 10

// drain is how long a child's stderr is read on after the child itself is
// gone, should a process that it left behind hold the other end.
const drain = time.Second

// Spec is one child.
type Spec struct {
	// Path is the program, absolute; Argv its arguments with its name first.
	Path string
	Argv []string
	// Env is its whole environment: empty means none at all.
	Env []string
	// Dir is its working directory; empty means "/".
	Dir string
	// UID and GID, where not zero, are what the child drops to; this process
	// has to be root then.
	UID, GID uint32
	// Tail is how many bytes of stderr are kept; 0 means DefaultTail.
	Tail int
	// Head is how many bytes of the beginning of stdout are kept, for a short
	// answer such as a version; 0 means that stdout is /dev/null.
	Head int
	// Reaper is told of the child where this process reaps children that it
	// knows nothing of; nil where it doesn't.
	Reaper Reaper
	// Started, where it is set, is called with the child's pid once it runs. The
	// child is not waited for before it returns: until then the pid is the
	// child's, even if that has ended.
	Started func(pid int)
}

// Reaper is a pid 1's: it waits for whatever ends, and would take the exit
// status of a child that somebody else waits for.
type Reaper interface {
	// Spawn calls start, which starts a child, and claims the pid that it
	// returns, so that the reaper leaves that child alone until release is
	// called. The reaper reaps nothing between start's beginning and the
	// claim. When start fails there is no claim, and the error is start's.
	Spawn(start func() (pid int, err error)) (release func(), err error)
}

// Exit is how a child ended.
type Exit struct {
	// Status is its exit status, or -1 when a signal ended it.
	Status int
	// Signal is that signal, or 0.
	Signal syscall.Signal
	// Killed says that it was killed because the context ended.
	Killed bool
	// Stderr is the end of what it printed to stderr, Stdout the beginning of
	// what it printed to stdout if Spec.Head asked for it.
	Stderr, Stdout string
}

// Run starts the child and waits for its end. When ctx ends, the child and
// everything below it is killed and seen gone before Run returns; the Exit
// says so and the error stays nil. An error means that no child was started, or
// that a reaper has taken its exit status (see IsReaped).
//
// The child gets /dev/null as stdin and stdout (but see Spec.Head), a session of its own, and
// SIGKILL when this process dies. That signal comes with the end of the
// thread that started the child, so this goroutine's thread is kept for the
// child's whole life (https://go.dev/issue/27505).
func Run(ctx context.Context, spec Spec) (Exit, error) {
	if err := ctx.Err(); err != nil {
		return Exit{}, err
	}
	type outcome struct {
		exit Exit
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		exit, err := run(ctx, spec)
		done <- outcome{exit, err}
	}()
	o := <-done
	return o.exit, o.err
}

func run(ctx context.Context, spec Spec) (Exit, error) {
	stderr := newTail(spec.Tail)
	cmd := exec.Command(spec.Path)
	cmd.Args = spec.Argv
	cmd.Env = append([]string{}, spec.Env...)
	cmd.Dir = spec.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stderr = stderr
	stdout := &head{size: spec.Head}
	if spec.Head > 0 {
		cmd.Stdout = stdout
	}
	cmd.WaitDelay = drain
	cmd.SysProcAttr = attributes(spec)
	KeepDescriptors()
	release, err := spawn(cmd, spec.Reaper)
	if err != nil {
		return Exit{}, err
	}
	defer release()
	killed := watch(ctx, cmd)
	if spec.Started != nil {
		spec.Started(cmd.Process.Pid)
	}
	err = cmd.Wait()
	exit := Exit{Killed: killed(), Stderr: stderr.String(), Stdout: stdout.String()}
	state := cmd.ProcessState
	if state == nil {
		return exit, err
	}
	exit.Status = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Signal = ws.Signal()
	}
	return exit, nil
}

// spawn starts the child, claimed from the reaper if there is one.
func spawn(cmd *exec.Cmd, reaper Reaper) (release func(), err error) {
	start := func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	}
	if reaper == nil {
		_, err := start()
		return func() {}, err
	}
	return reaper.Spawn(start)
}

// IsReaped reports whether err says that somebody else has waited for the
// child, so that nobody knows how it ended.
func IsReaped(err error) bool { return errors.Is(err, syscall.ECHILD) }

func attributes(spec Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if spec.UID != 0 {
		a.Credential = &syscall.Credential{Uid: spec.UID, Gid: spec.GID, Groups: []uint32{}}
	}
	return a
}

// watch kills cmd's tree when ctx ends. The function that it returns stops the
// watch, and says whether there was a kill, once that is over.
func watch(ctx context.Context, cmd *exec.Cmd) func() bool {
	stop := make(chan struct{})
	result := make(chan bool, 1)
	go func() {
		select {
		case <-ctx.Done():
			KillTree(cmd.Process.Pid, func(sig syscall.Signal) { _ = cmd.Process.Signal(sig) })
			result <- true
		case <-stop:
			result <- false
		}
	}()
	return func() bool {
		close(stop)
		return <-result
	}
}

// IsMissing reports whether err says that the program does not exist.
func IsMissing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist)
}
