package main

import (
	"fmt"
	"io"
	"os"

	libseccomp "github.com/seccomp/libseccomp-golang"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// libseccompTop is the highest call number that libseccomp 2.5.4 has a name
// for on both architectures. Rules for later calls go into the prologue, with
// whatever libseccomp the generator is linked, so that its version decides
// nothing.
const libseccompTop = 448

// compile makes the program for one architecture: the prologue, then what
// libseccomp makes of the rest.
func compile(arch seccomp.Arch, rules []seccomp.Rule) ([]byte, error) {
	head, rest, err := prologue(arch, rules)
	if err != nil {
		return nil, err
	}
	body, err := libseccompProgram(arch, rest)
	if err != nil {
		return nil, err
	}
	return append(head, body...), nil
}

// call is one call of one rule on one architecture.
type call struct {
	name   string
	number uint32
	when   *seccomp.Condition
	answer seccomp.Answer
}

func calls(arch seccomp.Arch, rules []seccomp.Rule) []call {
	var all []call
	for _, r := range rules {
		for _, name := range r.Calls {
			if n, ok := arch.Numbers[name]; ok {
				all = append(all, call{name: name, number: n, when: r.When, answer: r.Answer})
			}
		}
	}
	return all
}

func libseccompProgram(arch seccomp.Arch, rules []call) ([]byte, error) {
	filter, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		return nil, err
	}
	defer filter.Release()
	// The prologue has let no other architecture through. This is the second lock on the
	// same door, and must not be libseccomp's default, which kills.
	if err := filter.SetBadArchAction(errno(seccomp.ENOSYS)); err != nil {
		return nil, err
	}
	if err := only(filter, arch.Name); err != nil {
		return nil, err
	}
	for _, c := range rules {
		if err := add(filter, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return export(filter)
}

// only makes arch the filter's one architecture.
func only(filter *libseccomp.ScmpFilter, name string) error {
	arch, err := libseccomp.GetArchFromString(name)
	if err != nil {
		return err
	}
	native, err := libseccomp.GetNativeArch()
	if err != nil || arch == native {
		return err
	}
	if err := filter.AddArch(arch); err != nil {
		return err
	}
	return filter.RemoveArch(native)
}

func add(filter *libseccomp.ScmpFilter, c call) error {
	number, err := libseccomp.GetSyscallFromName(c.name)
	if err != nil {
		return err
	}
	if c.when == nil {
		return filter.AddRule(number, errno(c.answer))
	}
	for _, v := range c.when.Values {
		mask := uint64(0xFFFFFFFF)
		if c.when.Test == seccomp.AnyBit {
			mask = uint64(v.Value)
		}
		condition, err := libseccomp.MakeCondition(c.when.Arg, libseccomp.CompareMaskedEqual, mask, uint64(v.Value))
		if err != nil {
			return err
		}
		if err := filter.AddRuleConditional(number, errno(c.answer), []libseccomp.ScmpCondition{condition}); err != nil {
			return err
		}
	}
	return nil
}

func errno(a seccomp.Answer) libseccomp.ScmpAction {
	return libseccomp.ActErrno.SetReturnCode(int16(a))
}

func export(filter *libseccomp.ScmpFilter) ([]byte, error) {
	file, err := os.CreateTemp("", "seccompgen")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	if err := filter.ExportBPF(file); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}
