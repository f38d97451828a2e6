package seccomp_test

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// audit architectures that must not be let through: every other one that
// Linux can run beside ours, and some that it can't.
var foreign = map[string]uint32{
	"i386": 0x40000003, "x86-64": 0xC000003E, "arm": 0x40000028, "armeb": 0x28, "arm64": 0xC00000B7,
	"riscv64": 0xC00000F3, "s390x": 0x80000016, "ppc64le": 0xC0000015, "mips": 0x8,
	"zero": 0, "all ones": 0xFFFFFFFF, "x86-64 without a flag": 0x4000003E,
}

const x32 = 0x40000000

// numbers to put through a program: all that could be calls, x32's, and the
// ends of the range.
func allNumbers() []uint32 {
	var all []uint32
	for n := range uint32(1025) {
		all = append(all, n, x32|n)
	}
	return append(all, 2048, 4096, 0x7FFFFFFF, 0x80000000, 0x80000010, 0xFFFFFFFE, 0xFFFFFFFF)
}

// arguments that a condition could tell apart: every value and mask that the
// table knows, its neighbours, each single bit, and all of them again with
// garbage in the half that the kernel drops.
func arguments(rules []seccomp.Rule) []uint64 {
	low := []uint32{0, 0xFFFFFFFF, 0xFFFFFFFE, 0x00004111, 0x003D0F00}
	for bit := range 32 {
		low = append(low, 1<<bit)
	}
	for family := range uint32(64) {
		low = append(low, family)
	}
	for _, r := range rules {
		if r.When != nil {
			for _, v := range r.When.Values {
				low = append(low, v.Value, v.Value-1, v.Value+1, v.Value|0x11)
			}
		}
	}
	slices.Sort(low)
	var all []uint64
	for _, l := range slices.Compact(low) {
		for _, high := range []uint64{0, 1, 0x80000000, 0xDEADBEEF, 0xFFFFFFFF} {
			all = append(all, high<<32|uint64(l))
		}
	}
	return all
}

func TestEveryCallNumberGetsTheAnswerOfTheTable(t *testing.T) {
	rules := seccomp.Rules()
	for _, arch := range seccomp.Arches() {
		t.Run(arch.Name, func(t *testing.T) {
			program := committed(t, arch.Name)
			allowed, refused := 0, 0
			for _, n := range allNumbers() {
				for _, d := range []data{
					{number: n, arch: arch.Audit},
					{number: n, arch: arch.Audit, args: [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}},
				} {
					if check(t, program, arch, rules, d) == allow {
						allowed++
					} else {
						refused++
					}
				}
			}
			t.Logf("%d numbers: %d answers allow, %d refuse", len(allNumbers()), allowed, refused)
			if allowed < 400 || refused < 2000 {
				t.Errorf("%d allowed and %d refused: the numbers weren't really walked", allowed, refused)
			}
		})
	}
}

func TestConditionsSeeTheLowHalfOfTheirArgumentAndNothingElse(t *testing.T) {
	rules := seccomp.Rules()
	for _, arch := range seccomp.Arches() {
		t.Run(arch.Name, func(t *testing.T) {
			program := committed(t, arch.Name)
			for _, r := range rules {
				if r.When == nil {
					continue
				}
				for _, name := range r.Calls {
					number, ok := arch.Numbers[name]
					if !ok {
						t.Errorf("%s is not on %s", name, arch.Name)
						continue
					}
					answers := make(map[uint32]int)
					for _, value := range arguments(rules) {
						// The other arguments hold garbage that no condition may look at.
						args := [6]uint64{0xA5A5A5A5A5A5A5A5, 0x5A5A5A5A5A5A5A5A, 3, 4, 5, 6}
						args[r.When.Arg] = value
						answers[check(t, program, arch, rules, data{number: number, arch: arch.Audit, args: args})]++
					}
					if answers[allow] == 0 || len(answers) != 2 {
						t.Errorf("%s: the arguments got %v, want some allowed and some refused", name, answers)
					}
				}
			}
		})
	}
}

func TestAForeignArchitectureIsNeverLetThrough(t *testing.T) {
	rules := seccomp.Rules()
	for _, arch := range seccomp.Arches() {
		program := committed(t, arch.Name)
		for name, audit := range foreign {
			if audit == arch.Audit {
				continue
			}
			for _, n := range allNumbers() {
				if got := check(t, program, arch, rules, data{number: n, arch: audit}); got == allow {
					t.Fatalf("%s lets call %d of %s (%#x) through", arch.Name, n, name, audit)
				}
			}
		}
	}
}

// check compares the program's answer with the table's and returns it.
func check(t *testing.T, program []instruction, arch seccomp.Arch, rules []seccomp.Rule, d data) uint32 {
	t.Helper()
	got, err := interpret(program, d)
	if err != nil {
		t.Fatal(err)
	}
	if want := expected(arch, rules, d); got != want {
		t.Errorf("%s: call %d of arch %#x with %#x: the program answers %#x, the table %#x", arch.Name, d.number, d.arch, d.args, got, want)
	}
	return got
}

func TestNoAnswerOfTheFilterKills(t *testing.T) {
	for _, arch := range seccomp.Arches() {
		for pc, i := range committed(t, arch.Name) {
			if i.op == 0x06 && i.k != allow && i.k != retErrno|uint32(seccomp.EPERM) && i.k != retErrno|uint32(seccomp.ENOSYS) {
				t.Errorf("%s: instruction %d returns %#x", arch.Name, pc, i.k)
			}
			if i.op&7 == 6 && i.op != 0x06 {
				t.Errorf("%s: instruction %d returns a register", arch.Name, pc)
			}
		}
	}
}

func TestTheEmbeddedProgramIsTheCommittedOne(t *testing.T) {
	want, err := os.ReadFile("filter_" + runtime.GOARCH + ".bpf")
	if err != nil {
		t.Skipf("not run: no filter for %s", runtime.GOARCH)
	}
	got := seccomp.Program()
	if !bytes.Equal(got, want) {
		t.Fatalf("Program() has %d bytes, the file %d, or others", len(got), len(want))
	}
	got[0] ^= 0xFF
	if !bytes.Equal(seccomp.Program(), want) {
		t.Error("a caller can change the program that others get")
	}
}

// rfcList is the deny list of RFC 0022 §7.
var rfcList = strings.Fields(`ptrace mount umount2 pivot_root keyctl add_key request_key bpf
	io_uring_setup io_uring_enter io_uring_register unshare setns clone process_vm_readv process_vm_writev
	perf_event_open userfaultfd kexec_load kexec_file_load reboot init_module finit_module delete_module
	open_by_handle_at mknod mknodat ioperm iopl personality acct quotactl swapon swapoff`)

// conditional are the calls of that list that programs need with harmless arguments.
var conditional = []string{"clone", "personality"}

func TestEveryCallOfTheRFCsListIsRefused(t *testing.T) {
	for _, arch := range seccomp.Arches() {
		program := committed(t, arch.Name)
		for _, name := range rfcList {
			number, ok := arch.Numbers[name]
			if !ok {
				if arch.Name == "arm64" && slices.Contains([]string{"mknod", "ioperm", "iopl"}, name) {
					continue
				}
				t.Errorf("%s has no number for %s", arch.Name, name)
				continue
			}
			args := [6]uint64{0x10000000} // CLONE_NEWUSER, and no personality that is let through
			got, err := interpret(program, data{number: number, arch: arch.Audit, args: args})
			if err != nil || got != retErrno|uint32(seccomp.EPERM) {
				t.Errorf("%s on %s answers %#x, %v, want EPERM", name, arch.Name, got, err)
			}
			got, err = interpret(program, data{number: number, arch: arch.Audit})
			if free := got == allow; err != nil || free != slices.Contains(conditional, name) {
				t.Errorf("%s on %s answers %#x, %v with no argument set", name, arch.Name, got, err)
			}
		}
	}
}

// reviewedTop is the highest call number somebody has looked at and decided
// about. When x/sys learns new calls, look at each of them, extend the table where
// it must be, generate anew and only then raise this number.
const reviewedTop = 471

func TestNoCallNumberIsNewerThanTheLastReview(t *testing.T) {
	for _, arch := range seccomp.Arches() {
		if arch.Top() != reviewedTop {
			t.Errorf("%s goes up to %d, reviewed up to %d", arch.Name, arch.Top(), reviewedTop)
		}
	}
}

func TestTheTableIsWellFormed(t *testing.T) {
	groups := seccomp.Groups()
	seen := make(map[string]int)
	for _, r := range seccomp.Rules() {
		if !slices.Contains(groups, r.Group) {
			t.Errorf("%v is in the group %q, which is not listed", r.Calls, r.Group.Name)
		}
		if r.Why == "" || len(r.Calls) == 0 {
			t.Errorf("%v has no reason or no call", r.Calls)
		}
		if r.Answer != seccomp.EPERM && !slices.Equal(r.Calls, []string{"clone3"}) {
			t.Errorf("%v answers %s; only clone3 may answer anything but EPERM", r.Calls, r.Answer)
		}
		for _, c := range r.Calls {
			seen[c]++
			if seen[c] > 1 && r.When == nil {
				t.Errorf("%s stands in two rules, one of them without a condition", c)
			}
			if !slices.ContainsFunc(seccomp.Arches(), func(a seccomp.Arch) bool { _, ok := a.Numbers[c]; return ok }) {
				t.Errorf("%s is a call on no architecture", c)
			}
		}
	}
}
