package stage

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scoped is the Landlock domain that every scanner is put into. Abstract unix
// sockets go by the network namespace and signals by the uid, so where a run
// has the host's network, or no walls at all, neither a mount nor a filter
// keeps it from a stranger's: two runs could meet at a name, and hand their
// work directories to each other. Inside one domain, which a scanner's
// children inherit, both work as ever, and so do signals from outside; files
// are not its business. That its processes trace none outside of it, and open
// no such process's memory, comes with every domain.
//
// See https://docs.kernel.org/userspace-api/landlock.html, "IPC scoping".
func scoped() unix.LandlockRulesetAttr {
	return unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
}

// scope puts the child into a domain of its own. A kernel that knows none
// (before Linux 6.12, or with Landlock switched off), or a filter around this
// program that does not let it be asked for, leaves the scanner without; any
// other failure is one.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (o *order) scope() bool {
	// The descriptor closes on execve by itself.
	fd, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&o.scoped)), unsafe.Sizeof(o.scoped), 0)
	switch errno {
	case 0:
		return o.call(StepScope, unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	case unix.ENOSYS, unix.EOPNOTSUPP, unix.E2BIG, unix.EINVAL, unix.EPERM:
		return true
	}
	o.step, o.errno = StepScope, errno
	return false
}
