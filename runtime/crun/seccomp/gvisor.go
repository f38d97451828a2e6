package seccomp

import "github.com/opencontainers/runtime-spec/specs-go"

// ForGVisor is the same profile for runsc, which answers EPERM wherever a
// profile says ERRNO, whatever the errno: on that programs don't fall back to
// older calls. A refusal with SCMP_ACT_TRACE answers ENOSYS where nobody
// traces, and with ptrace refused nobody ever does. Flags and architectures it
// has no use for.
func ForGVisor(p *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	c := clone(p)
	c.DefaultAction, c.DefaultErrnoRet = specs.ActTrace, nil
	for i := range c.Syscalls {
		if c.Syscalls[i].Action == specs.ActErrno {
			c.Syscalls[i].Action, c.Syscalls[i].ErrnoRet = specs.ActTrace, nil
		}
	}
	return c
}
