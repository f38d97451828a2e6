package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// descriptors is how many more files must be open at the same time at least:
// a run needs a dozen, and the language's own runtime dies with a trace and a
// status of its own if it can't have its two.
const descriptors = 32

// checkDescriptors refuses to begin without them.
func checkDescriptors() error {
	first, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return tooFew(err)
	}
	open := []int{first}
	for err == nil && len(open) < descriptors {
		var fd int
		if fd, err = unix.FcntlInt(uintptr(first), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			open = append(open, fd)
		}
	}
	for _, fd := range open {
		_ = unix.Close(fd)
	}
	if err != nil {
		return tooFew(err)
	}
	return nil
}

func tooFew(err error) error {
	return fmt.Errorf("fewer than %d files can be opened: %w; raise the limit (ulimit -n)", descriptors, err)
}
