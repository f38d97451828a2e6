package probe

import (
	"context"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// modeFilter is /proc/self/status's Seccomp for a process with a filter.
const modeFilter = 2

// seccomp: in a process started as a scanner is, the kernel shows a filter,
// and calls from its table answer with its errnos.
func (p *probe) seccomp(context.Context) (wire.Outcome, string) {
	if p.childErr != nil {
		return fail("%v", p.childErr)
	}
	if p.child.Seccomp != modeFilter {
		return fail("a child has Seccomp: %d, want %d", p.child.Seccomp, modeFilter)
	}
	var through []string
	for name, answer := range p.child.Denied {
		if answer != "EPERM" && answer != "ENOSYS" {
			through = append(through, name+" answered "+answer)
		}
	}
	slices.Sort(through)
	switch {
	case len(through) > 0:
		return fail("a child's %s, want EPERM", strings.Join(through, ", "))
	case len(p.child.Denied) == 0:
		return fail("a child tried no call, so the filter could not be seen to refuse")
	}
	return pass("a child has Seccomp: %d (%d filters) and was refused %d of %d calls",
		p.child.Seccomp, p.child.SeccompFilters, len(p.child.Denied), len(p.child.Denied))
}

// noNewPrivileges: a process started as a scanner is can't gain any by
// executing a set-id program.
func (p *probe) noNewPrivileges(context.Context) (wire.Outcome, string) {
	switch {
	case p.childErr != nil:
		return fail("%v", p.childErr)
	case p.child.NoNewPrivs != 1:
		return fail("a child has NoNewPrivs: %d, want 1", p.child.NoNewPrivs)
	}
	return pass("a child has NoNewPrivs: 1")
}
