package seccomp

import (
	"fmt"
	"slices"
	"sync"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// native are the architectures that there is a filter for, by Go's names.
var native = map[string]specs.Arch{
	"amd64": specs.ArchX86_64,
	"arm64": specs.ArchAARCH64,
}

var reduced = map[string]func() (*specs.LinuxSeccomp, error){
	"amd64": sync.OnceValues(func() (*specs.LinuxSeccomp, error) { return reduce(seccomp.DefaultProfile(), "amd64") }),
	"arm64": sync.OnceValues(func() (*specs.LinuxSeccomp, error) { return reduce(seccomp.DefaultProfile(), "arm64") }),
}

// Profile is the filter for an architecture by Go's name for it. It is
// computed once; the caller gets a copy of its own.
func Profile(arch string) (*specs.LinuxSeccomp, error) {
	f, ok := reduced[arch]
	if !ok {
		return nil, fmt.Errorf("there is no seccomp profile for the architecture %q", arch)
	}
	p, err := f()
	if err != nil {
		return nil, err
	}
	return clone(p), nil
}

// reduce resolves every condition of a profile for a container that has no
// capability, and takes the calls of Never out of what it allows.
func reduce(p *seccomp.Seccomp, arch string) (*specs.LinuxSeccomp, error) {
	architectures, err := architectures(p, arch)
	if err != nil {
		return nil, err
	}
	// The default profile answers EPERM; ENOSYS is what programs fall back on.
	errno := uint(unix.ENOSYS)
	out := &specs.LinuxSeccomp{DefaultAction: p.DefaultAction, DefaultErrnoRet: &errno, Architectures: architectures}
	if out.DefaultAction != specs.ActErrno {
		return nil, fmt.Errorf("the default profile's default action is %s, want %s", out.DefaultAction, specs.ActErrno)
	}
	for _, rule := range p.Syscalls {
		if !applies(rule, arch) {
			continue
		}
		names := slices.Clone(rule.Names)
		if rule.Action == specs.ActAllow {
			names = slices.DeleteFunc(names, forbidden)
		}
		if len(names) == 0 {
			continue
		}
		out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{
			Names: names, Action: rule.Action, ErrnoRet: rule.ErrnoRet, Args: slices.Clone(rule.Args),
		})
	}
	fewer(out)
	return out, nil
}

// applies says whether a rule is one for a container without capabilities. A
// rule for newer kernels is taken as one for all: it only names calls that
// older kernels don't have.
func applies(rule *seccomp.Syscall, arch string) bool {
	if in := rule.Includes; in != nil {
		if len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, arch) {
			return false
		}
	}
	// What a capability would lift stays: nobody holds one.
	return rule.Excludes == nil || !slices.Contains(rule.Excludes.Arches, arch)
}

// architectures are the native one and those whose calls the same kernel
// takes, which are filtered by the same rules.
func architectures(p *seccomp.Seccomp, arch string) ([]specs.Arch, error) {
	for _, a := range p.ArchMap {
		if a.Arch == native[arch] && a.Arch != "" {
			return append([]specs.Arch{a.Arch}, a.SubArches...), nil
		}
	}
	return nil, fmt.Errorf("the default profile knows no architecture %q", arch)
}

func forbidden(name string) bool {
	_, found := slices.BinarySearch(Never, name)
	return found
}

// clone is a copy that shares nothing.
func clone(p *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	c := *p
	c.DefaultErrnoRet = cloneInt(p.DefaultErrnoRet)
	c.Architectures = slices.Clone(p.Architectures)
	c.Flags = slices.Clone(p.Flags)
	c.Syscalls = slices.Clone(p.Syscalls)
	for i, rule := range c.Syscalls {
		c.Syscalls[i].Names = slices.Clone(rule.Names)
		c.Syscalls[i].Args = slices.Clone(rule.Args)
		c.Syscalls[i].ErrnoRet = cloneInt(rule.ErrnoRet)
	}
	return &c
}

func cloneInt(n *uint) *uint {
	if n == nil {
		return nil
	}
	return new(*n)
}
