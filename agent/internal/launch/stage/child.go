package stage

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// order is all that a child needs to become a scanner, laid out before it
// exists: the child has its parent's memory, and may neither allocate nor wait
// for anything in it.
type order struct {
	program, dir *byte
	argv, env    []*byte
	stdio        [3]uintptr
	limits       []limit
	// wanted is the domain, closed what it closes, workDir what it does not,
	// and domain its descriptor.
	wanted  unix.LandlockRulesetAttr
	closed  []string
	workDir string
	domain  int
	// expendable is the file that makes a process the first to be killed for want of
	// memory, and mostExpendable what is written to it.
	expendable, mostExpendable *byte
	filter                     unix.SockFprog
	dieWith                    int64
	// sealed says that every descriptor closes on execve by itself.
	sealed bool

	// What the child could not do. It writes this where its parent finds it.
	step  Step
	errno syscall.Errno
}

const (
	highestSignal  = 64
	signalSetSize  = 8 // bytes
	lastDescriptor = uintptr(^uint32(0))
)

// fork makes a child that becomes what o says, and returns when it has executed
// it, or has failed and left o.step. Signals are held back meanwhile, because
// the Go runtime's handlers must not run in the child; and everything from here
// to the child's end is nosplit, so that the scheduler has no part in it.
//
// A stage that is this executable started again would need none of this, and
// did without it until it was measured: the second start of a Go program was
// more than a third of what a run costs beyond its bwrap.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func fork(o *order) (pid, errno uintptr) {
	all, before := ^uint64(0), uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), signalSetSize, 0, 0)
	pid, errno = vfork(o)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&before)), 0, signalSetSize, 0, 0)
	return pid, errno
}

// vfork is a function of its own because the child goes on in its frame, from
// which it never returns, while the parent does nothing else in it.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func vfork(o *order) (pid, errno uintptr) {
	pid, errno = rawVfork(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD))
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	o.become()
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, exitStage, 0, 0)
	}
}

// become is the child. The order is the one that RFC 0022 §6.2 gives: limits,
// filter, exec. It calls the kernel and nothing else, and returns only when
// something has failed.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (o *order) become() {
	// What the agent ignores, a scanner must not have to.
	var none [4]uintptr
	for s := uintptr(1); s <= highestSignal; s++ {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&none)), 0, signalSetSize, 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&none)), 0, signalSetSize, 0, 0)
	o.offer()
	if !o.call(StepDescriptors, unix.SYS_SETSID, 0, 0, 0) {
		return
	}
	// The domain has a descriptor, which is closed with the others.
	if !o.call(StepPrivileges, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) {
		return
	}
	if o.domain != noDomain && !o.call(StepScope, unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(o.domain), 0, 0) {
		return
	}
	if !o.descriptors() {
		return
	}
	if o.dieWith >= 0 {
		if !o.call(StepParent, unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0) {
			return
		}
		// A parent that died before would never be noticed.
		if parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int64(parent) != o.dieWith {
			o.step, o.errno = StepParent, unix.ESRCH
			return
		}
	}
	if !o.call(StepDirectory, unix.SYS_CHDIR, uintptr(unsafe.Pointer(o.dir)), 0, 0) {
		return
	}
	for i := range o.limits {
		l := &o.limits[i]
		if !o.call(StepLimits, unix.SYS_PRLIMIT64, 0, l.resource, uintptr(unsafe.Pointer(&l.value))) {
			return
		}
	}
	if !o.call(StepFilter, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&o.filter))) {
		return
	}
	o.call(StepExec, unix.SYS_EXECVE, uintptr(unsafe.Pointer(o.program)),
		uintptr(unsafe.Pointer(unsafe.SliceData(o.argv))), uintptr(unsafe.Pointer(unsafe.SliceData(o.env))))
}

// offer makes the child, and with it the scanner and all it starts, what the
// kernel kills when the sandbox is out of memory, and not the agent, which has
// a result to store. Raising one's own score takes no privilege; that it can't
// be raised is no failure. Whatever can't be looked into has its files in /proc
// given to root, and so had this child, which shares its parent's memory: both
// may be looked into while the file is opened, when nobody is there to look.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (o *order) offer() {
	const workingDirectory = ^uintptr(99) // AT_FDCWD, -100
	before, _, errno := syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0)
	if errno != 0 || before > 1 {
		return // a state that can't be set again
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, workingDirectory,
		uintptr(unsafe.Pointer(o.expendable)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, before, 0)
	if errno != 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(o.mostExpendable)), uintptr(len(MostExpendable)))
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// MostExpendable is the score of a process that is to be killed for want of
// memory before any other.
const MostExpendable = "1000"

// descriptors gives the child its own three and none besides.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (o *order) descriptors() bool {
	fds := o.stdio
	for i := range fds {
		if fds[i] >= uintptr(i) {
			continue
		}
		// It stands in a place that is taken before it is copied.
		fd, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, fds[i], unix.F_DUPFD, uintptr(len(fds)))
		if errno != 0 {
			o.step, o.errno = StepDescriptors, errno
			return false
		}
		fds[i] = fd
	}
	for i := range fds {
		var done bool
		if fds[i] == uintptr(i) {
			done = o.call(StepDescriptors, unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0)
		} else {
			done = o.call(StepDescriptors, unix.SYS_DUP3, fds[i], uintptr(i), 0)
		}
		if !done {
			return false
		}
	}
	return o.sealed || o.call(StepDescriptors, unix.SYS_CLOSE_RANGE, uintptr(len(fds)), lastDescriptor, 0)
}

// call makes one system call and notes a failure as step's.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (o *order) call(step Step, trap, a1, a2, a3 uintptr) bool {
	_, _, errno := syscall.RawSyscall6(trap, a1, a2, a3, 0, 0, 0)
	if errno != 0 {
		o.step, o.errno = step, errno
		return false
	}
	return true
}
