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
	{"unshare", unix.SYS_UNSHARE, [3]uintptr{0}},                            // else: success
	{"setns", unix.SYS_SETNS, [3]uintptr{^uintptr(0), 0}},                   // else: EBADF
	{"ptrace", unix.SYS_PTRACE, [3]uintptr{unix.PTRACE_DETACH, 0}},          // else: ESRCH
	{"keyctl", unix.SYS_KEYCTL, [3]uintptr{^uintptr(0) >> 1}},               // else: EOPNOTSUPP
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [3]uintptr{0}},          // else: success or ESRCH
	{"mknodat", unix.SYS_MKNODAT, [3]uintptr{^uintptr(0), 0, unix.S_IFCHR}}, // else: EFAULT
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [3]uintptr{0, 0, 0}},        // else: EFAULT, EINVAL
}

// witness says what it sees of itself and of the directories or files in its
// arguments, a line each. It was started as a scanner is, so it stands behind what a
// scanner stands behind.
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
		b.WriteString("call " + a.name + " " + named(errno) + "\n")
	}
	for i, dir := range os.Args[1:] {
		b.WriteString("closed " + strconv.Itoa(i) + " list " + named(list(dir)) + "\n")
		b.WriteString("closed " + strconv.Itoa(i) + " create " + named(create(dir)) + "\n")
	}
	_, _ = syscall.Write(1, []byte(b.String()))
	syscall.Exit(0)
}

// named is an answer of the kernel's in a word.
func named(errno syscall.Errno) string {
	if errno == 0 {
		return "ok"
	}
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "errno-" + strconv.Itoa(int(errno))
}

// list opens a directory, or a file, to read.
func list(dir string) syscall.Errno {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return errno(err)
	}
	_ = unix.Close(fd)
	return 0
}

// create makes a file in a directory. What is itself a file is opened to write.
func create(dir string) syscall.Errno {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG {
		fd, err := unix.Open(dir, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return errno(err)
		}
		_ = unix.Close(fd)
		return 0
	}
	name := dir + "/.witness"
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return errno(err)
	}
	_ = unix.Close(fd)
	_ = unix.Unlink(name)
	return 0
}
