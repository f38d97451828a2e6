package stage

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempts are calls that the filter must refuse, in a form that does no harm
// without it and that the kernel would then answer differently: EPERM from an
// unprivileged mount would prove nothing.
var attempts = []struct {
	name string
	trap uintptr
	args [3]uintptr
}{
	{"unshare", unix.SYS_UNSHARE, [3]uintptr{0}},                     // else: success
	{"setns", unix.SYS_SETNS, [3]uintptr{^uintptr(0), 0}},            // else: EBADF
	{"ptrace", unix.SYS_PTRACE, [3]uintptr{unix.PTRACE_DETACH, 0}},   // else: ESRCH
	{"keyctl", unix.SYS_KEYCTL, [3]uintptr{^uintptr(0) >> 1}},        // else: EOPNOTSUPP
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [3]uintptr{0}},   // else: success or ESRCH
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [3]uintptr{0, 0, 0}}, // else: EFAULT, EINVAL
}

// witness says what it sees of itself, a line each. It was started as a scanner
// is, so it stands behind what a scanner stands behind.
func witness() {
	var b strings.Builder
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Seccomp", "Seccomp_filters", "NoNewPrivs":
			b.WriteString(name + " " + strings.TrimSpace(value) + "\n")
		}
	}
	b.WriteString("uid " + strconv.Itoa(os.Geteuid()) + "\n")
	for _, a := range attempts {
		_, _, errno := unix.RawSyscall6(a.trap, a.args[0], a.args[1], a.args[2], 0, 0, 0)
		answer := "ok"
		if errno != 0 {
			if answer = unix.ErrnoName(errno); answer == "" {
				answer = "errno-" + strconv.Itoa(int(errno))
			}
		}
		b.WriteString("call " + a.name + " " + answer + "\n")
	}
	_, _ = syscall.Write(1, []byte(b.String()))
	syscall.Exit(0)
}
