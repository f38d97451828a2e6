package seccomp

import (
	"math"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// of are the rules that allow one call.
func of(rules []specs.LinuxSyscall, name string) []specs.LinuxSyscall {
	return slices.DeleteFunc(slices.Clone(rules), func(rule specs.LinuxSyscall) bool {
		return rule.Action != specs.ActAllow || !slices.Contains(rule.Names, name)
	})
}

// takes says whether one of the rules allows that first argument.
func takes(rules []specs.LinuxSyscall, value uint64) bool {
	return slices.ContainsFunc(rules, func(rule specs.LinuxSyscall) bool { return fits(rule.Args, value) })
}

func TestTheFewerRulesAllowWhatTheDefaultProfilesDo(t *testing.T) {
	for arch := range native {
		var module []specs.LinuxSyscall
		for _, rule := range seccomp.DefaultProfile().Syscalls {
			if applies(rule, arch) {
				module = append(module, rule.LinuxSyscall)
			}
		}
		for _, name := range flat {
			module, ours := of(module, name), of(profile(t, arch).Syscalls, name)
			var allowed, refused int
			look := func(value uint64) {
				want := takes(module, value)
				if got := takes(ours, value); got != want {
					t.Errorf("%s: %s of %#x: allowed %t, want %t", arch, name, value, got, want)
				}
				// What the kernel does not look at makes no difference.
				if got := takes(ours, value|1<<40); got != want {
					t.Errorf("%s: %s of %#x with more in its register: allowed %t, want %t", arch, name, value, got, want)
				}
				if want {
					allowed++
				} else {
					refused++
				}
			}
			for value := range uint64(1 << 12) {
				look(value)
			}
			for bit := range 32 {
				look(math.MaxUint32 &^ (1 << bit))
				for low := range uint64(64) {
					look(1<<bit | low)
				}
			}
			look(math.MaxUint32)
			if allowed == 0 || refused == 0 {
				t.Errorf("%s: %s is allowed with %d and refused with %d arguments", arch, name, allowed, refused)
			}
		}
	}
}

func TestAMaskTakesManyValuesAndNoOther(t *testing.T) {
	for _, values := range [][]uint32{
		nil,
		{0},
		{0, 8, 0x20000, 0x20008, math.MaxUint32},
		{0, 1, 2, 3, 4, 5, 6, 7},
		{1, 2, 4, 7},
		{5, 5, 5},
	} {
		got := masks(values)
		for v := range uint32(1 << 18) {
			has := slices.ContainsFunc(got, func(m masked) bool { return m.has(v) })
			if has != slices.Contains(values, v) {
				t.Errorf("%v: %#x is taken: %t", values, v, has)
			}
		}
		if len(values) == 8 && len(got) != 1 || len(values) == 5 && len(got) != 2 {
			t.Errorf("%v: %d masks", values, len(got))
		}
	}
}

func TestARuleForMoreThanOneIntIsKept(t *testing.T) {
	rule := func(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
	}
	kept := []specs.LinuxSyscall{
		rule("socket", specs.LinuxSeccompArg{Index: 1, Value: 2, Op: specs.OpEqualTo}),
		rule("socket", specs.LinuxSeccompArg{Value: 2, Op: specs.OpEqualTo}, specs.LinuxSeccompArg{Index: 1, Value: 2, Op: specs.OpEqualTo}),
		rule("socket", specs.LinuxSeccompArg{Value: 40, Op: specs.OpNotEqual}),
		rule("socket", specs.LinuxSeccompArg{Value: 1 << 32, Op: specs.OpEqualTo}),
		rule("socket", specs.LinuxSeccompArg{Value: 1 << 20, Op: specs.OpLessThan}),
		rule("socket"),
		rule("clone", specs.LinuxSeccompArg{Value: 2, Op: specs.OpEqualTo}),
		{Names: []string{"socket"}, Action: specs.ActErrno, Args: []specs.LinuxSeccompArg{{Value: 2, Op: specs.OpEqualTo}}},
	}
	p := &specs.LinuxSeccomp{Syscalls: slices.Clone(kept)}
	fewer(p)
	if len(p.Syscalls) != len(kept) {
		t.Errorf("of %d rules %d are left", len(kept), len(p.Syscalls))
	}
}
