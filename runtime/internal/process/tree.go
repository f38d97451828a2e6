package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// gone is how long the end of killed processes is waited for. A process that
// outlives it hangs in the kernel, where nothing reaches it.
const gone = 5 * time.Second

// KillTree kills the process pid and everything below it, and waits until all
// but pid itself, which its parent has to reap, are gone. The kill of pid
// itself goes through signal, which must not hit a process that was reaped.
//
// Killing bwrap's first process is not enough: the sandbox's own first process
// dies a moment later, and until then it writes to the run's directory. Its
// death is the end of its whole pid namespace.
func KillTree(pid int, signal func(syscall.Signal)) {
	signal(syscall.SIGSTOP)
	below := freeze(pid)
	signal(syscall.SIGKILL)
	for _, fd := range below {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	deadline := time.Now().Add(gone)
	for _, fd := range below {
		awaitExit(fd, deadline)
		_ = unix.Close(fd)
	}
}

// freeze stops everything below pid and returns a descriptor of each. A stopped
// process starts no other, so the list is complete when a look finds no more.
func freeze(pid int) []int {
	var fds []int
	seen := map[int]bool{pid: true}
	for grown := true; grown; {
		grown = false
		for parent := range seen {
			for _, child := range Children(parent) {
				if seen[child] {
					continue
				}
				seen[child], grown = true, true
				if fd, err := unix.PidfdOpen(child, 0); err == nil {
					_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
					fds = append(fds, fd)
				}
			}
		}
	}
	return fds
}

// Children are the pids of the live children of pid, started by any of its
// threads.
func Children(pid int) []int {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var children []int
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(b) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

func awaitExit(fd int, deadline time.Time) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != unix.EINTR {
			return
		}
	}
}
