package stage

import (
	"errors"
	"io"
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
	scanner, pid, err := Spawn(MarkerScanner, job.Args(), [3]uintptr{0, 1, 2})
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
	if r, err := ReadRecord(scanner); !errors.Is(err, io.EOF) {
		_, _ = reap.All(pid, reap.Descendants)
		if err != nil {
			fail(StepKeeper, err)
		}
		_ = r.Write(fdReport)
		syscall.Exit(exitStage)
	}
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

// Spawn starts this program again in the role that the marker names, in a
// session of its own and with an empty environment. The file returned takes
// its records.
func Spawn(marker string, args []string, stdio [3]uintptr, more ...uintptr) (report *os.File, pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer write.Close()
	files := append(append(stdio[:], write.Fd()), more...)
	pid, err = syscall.ForkExec(Executable, append([]string{marker}, args...), &syscall.ProcAttr{
		Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		read.Close()
		return nil, 0, err
	}
	return read, pid, nil
}
