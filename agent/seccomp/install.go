package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoProgram is Install's answer on an architecture without a filter.
var ErrNoProgram = errors.New("no seccomp filter for this architecture")

// instructionSize is the size of one struct sock_filter in bytes.
const instructionSize = 8

// Program returns the filter for the running architecture as the raw array of
// struct sock_filter that seccomp(2) and bwrap's --seccomp take. It is empty
// on an architecture without a filter. The caller owns the copy.
func Program() []byte { return append([]byte(nil), program...) }

// Filter is the filter as the kernel takes it. Whoever passes it to the kernel
// keeps it reachable until then.
func Filter() (unix.SockFprog, error) {
	if len(program) == 0 {
		return unix.SockFprog{}, fmt.Errorf("%w: %s", ErrNoProgram, runtime.GOARCH)
	}
	// A string's bytes may stand anywhere, and the kernel wants a
	// pointer it can read as instructions.
	instructions := make([]unix.SockFilter, len(program)/instructionSize)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&instructions[0])), len(program)), program)
	return unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}, nil
}

// Install puts the filter on every thread of the calling process, for good,
// and on whatever it executes. no_new_privs must be set on the process, or the
// kernel answers EACCES.
func Install() error {
	prog, err := Filter()
	if err != nil {
		return err
	}
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(prog)
	switch {
	case errno != 0:
		return fmt.Errorf("installing the seccomp filter: %w", errno)
	case thread != 0:
		return fmt.Errorf("installing the seccomp filter: thread %d can't take it", thread)
	}
	return nil
}
