package stage

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/reap"
	"github.com/batleforc/batlehub-sandbox/agent/internal/signals"
)

// keep starts the scanner for a program that is not pid 1, and ends
// everything that it left. The keeper is a subreaper: what a scanner detaches
// becomes the keeper's child and nobody else's, so it can tell the run's
// processes from the host's. When its lifeline closes, because the program
// that holds it wants that or has died, it ends them at once.
func keep(args []string) {
	job, ok := parseJob(args)
	if !ok {
		fail(StepArguments, syscall.EINVAL)
	}
	signals.Ignore()
	unix.CloseOnExec(fdReport)
	unix.CloseOnExec(fdLifeline)
	must(StepKeeper, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	must(StepKeeper, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	job.DieWith = int64(os.Getpid())
	pid, err := Start(job, [3]uintptr{0, 1, 2})
	if failure, ok := errors.AsType[*Failure](err); ok {
		fail(failure.Step, failure.Errno)
	}
	must(StepKeeper, err)
	// The keeper must not hold the scanner's pipes open.
	must(StepKeeper, blank(1))
	must(StepKeeper, blank(2))
	go func() {
		var b [1]byte
		for {
			if n, err := syscall.Read(fdLifeline, b[:]); n == 0 || err != nil && !errors.Is(err, syscall.EINTR) {
				reap.Descendants()
				return
			}
		}
	}()
	_ = Record{Kind: Runs}.Write(fdReport)
	exit, err := reap.All(pid, reap.Descendants)
	if err != nil && !errors.Is(err, reap.ErrLeft) {
		fail(StepKeeper, err)
	}
	_ = Record{Kind: Ended, Exit: exit, Left: err != nil}.Write(fdReport)
	syscall.Exit(0)
}

func blank(fd int) error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.Close(fd)
	}
	err = unix.Dup3(null, fd, unix.O_CLOEXEC)
	_ = unix.Close(null)
	return err
}

// StartKeeper starts this program again as job's keeper, in a session of its own
// and with an empty environment. It lives as long as the lifeline's other end
// is open, and the file returned takes its records.
func StartKeeper(job Job, stdio [3]uintptr, lifeline *os.File) (report *os.File, pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer write.Close()
	pid, err = syscall.ForkExec(Executable, append([]string{MarkerKeeper}, job.Args()...), &syscall.ProcAttr{
		Env: []string{}, Files: append(stdio[:], write.Fd(), lifeline.Fd()), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		read.Close()
		return nil, 0, err
	}
	return read, pid, nil
}
