package seccomp

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// ForRunc is the same profile for runc, which compiles it for every run again:
// without x32, whose calls cost it as much as all of x86-64's. It puts a
// beginning of its own before the filter that answers ENOSYS to every number
// above the highest one in the profile, and to those of x32 with it; they have
// the same architecture as x86-64's, and another bit in the number.
func ForRunc(p *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	c := clone(p)
	c.Architectures = slices.DeleteFunc(c.Architectures, func(a specs.Arch) bool { return a == specs.ArchX32 })
	return c
}
