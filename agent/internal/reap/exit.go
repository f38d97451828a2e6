package reap

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit is how a scanner ended and what it and all it started used.
type Exit struct {
	// Status is the scanner's wait status.
	Status syscall.WaitStatus
	// User and System are processor time, summed over everything reaped.
	User, System time.Duration
	// MaxRSSKiB is the largest resident set of any one process, in KiB. It is
	// never below that of the program that started the scanner.
	MaxRSSKiB int64
}

// ErrLeft is processes that would not end within the bound.
var ErrLeft = errors.New("processes are left that don't end")

// killBound is how long a killed process may take to be gone. Only one stuck
// in the kernel takes that long.
const killBound = 20 * time.Second

// All waits for the scanner pid, then ends everything that kill covers and
// reaps until there is no child left. As pid 1 it reaps orphans all along.
// Only a process without other children may call it.
func All(pid int, kill func()) (Exit, error) {
	var e Exit
	for seen := false; !seen; {
		reaped, status, err := e.wait(0)
		if err != nil {
			return e, err
		}
		if reaped == pid {
			e.Status, seen = status, true
		}
	}
	return e, e.rest(kill)
}

// rest ends and reaps what is left.
func (e *Exit) rest(kill func()) error {
	for deadline, pause := time.Now().Add(killBound), 50*time.Microsecond; ; {
		reaped, _, err := e.wait(unix.WNOHANG)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return err
		case reaped != 0:
			continue
		case time.Now().After(deadline):
			return ErrLeft
		}
		kill()
		time.Sleep(pause) //nolint:forbidigo // between two looks, bounded: a killed process sends no event that can be waited for with a bound
		pause = min(2*pause, 5*time.Millisecond)
	}
}

// wait reaps one child and adds what it used.
func (e *Exit) wait(options int) (int, syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		pid, err := syscall.Wait4(-1, &status, options, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && pid > 0 {
			e.User += time.Duration(usage.Utime.Nano())
			e.System += time.Duration(usage.Stime.Nano())
			e.MaxRSSKiB = max(e.MaxRSSKiB, usage.Maxrss)
		}
		return pid, status, err
	}
}
