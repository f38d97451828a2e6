// Package signals sets the disposition of every signal of a process at once.
//
// A scanner shares its uid with the agent and may send it any signal. A Go
// program dies of most of them, and prints a trace on SIGSEGV and its like
// whoever sent it; os/signal can't ignore those, rt_sigaction can.
package signals

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// highest is the highest signal number on Linux.
const highest = 64

// The kernel's own struct sigaction, and the two handlers that are no code.
type action struct {
	handler, flags, restorer, mask uintptr
}

const (
	actDefault = 0
	actIgnore  = 1
)

// Ignore ignores every signal that can be ignored, except SIGCHLD, which
// reaps by itself when ignored, and SIGURG, with which the Go runtime
// interrupts its own threads and which does nothing else. A fault of the
// program's own still ends it: the kernel does not ask.
func Ignore() {
	for s := 1; s <= highest; s++ {
		switch syscall.Signal(s) {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG:
		default:
			set(s, actIgnore)
		}
	}
}

// Default gives every signal its default disposition and unblocks all, as a
// program expects it that is about to be executed.
func Default() {
	for s := 1; s <= highest; s++ {
		set(s, actDefault)
	}
	var none uint64
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, uintptr(unix.SIG_SETMASK),
		uintptr(unsafe.Pointer(&none)), 0, unsafe.Sizeof(none), 0, 0)
}

func set(signal int, handler uintptr) {
	a := action{handler: handler}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&a)), 0, 8, 0, 0)
}
