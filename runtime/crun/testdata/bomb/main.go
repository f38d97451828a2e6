// Command bomb makes processes until it gets no more, prints how many there were,
// and with an argument goes on trying.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	debug.SetGCPercent(-1) // that takes threads
	made, errno := 0, fork()
	for errno == 0 && made < 1000 {
		made++
		errno = fork()
	}
	fmt.Println(made)
	for len(os.Args) > 1 {
		_ = fork()
	}
}

// fork makes a process that only waits, and calls the kernel alone.
//
//go:norace
func fork() syscall.Errno {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for pid == 0 && errno == 0 {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	return errno
}
