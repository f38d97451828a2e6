package seccomp

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

var update = flag.Bool("update", false, "write the golden files again")

func profile(t *testing.T, arch string) *specs.LinuxSeccomp {
	t.Helper()
	p, err := Profile(arch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// allowed are the names that some rule allows.
func allowed(p *specs.LinuxSeccomp) map[string]bool {
	names := make(map[string]bool)
	for _, rule := range p.Syscalls {
		if rule.Action == specs.ActAllow {
			for _, name := range rule.Names {
				names[name] = true
			}
		}
	}
	return names
}

func TestTheNeverListIsSortedWithoutDuplicatesAndComplete(t *testing.T) {
	if !slices.IsSorted(Never) {
		t.Error("it is not sorted")
	}
	if n := len(slices.Compact(slices.Clone(Never))); n != len(Never) || n != 63 {
		t.Errorf("it has %d names, %d of them distinct; want 61, open_tree_attr and socketcall", len(Never), n)
	}
	for group, names := range map[string]string{
		"mounts and namespaces": "mount umount umount2 unshare setns pivot_root chroot mount_setattr open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick",
		"boot and modules":      "reboot swapon swapoff kexec_load kexec_file_load init_module finit_module delete_module query_module",
		"other processes":       "ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_getfd",
		"host identity":         "sethostname setdomainname",
		"clock":                 "settimeofday clock_settime clock_settime64 stime adjtimex clock_adjtime clock_adjtime64",
		"ports and terminal":    "iopl ioperm vhangup",
		"accounting":            "acct quotactl quotactl_fd nfsservctl",
		"tracing and faults":    "bpf perf_event_open userfaultfd lookup_dcookie",
		"keys":                  "add_key keyctl request_key",
		"file handles":          "open_by_handle_at name_to_handle_at",
		"kernel log":            "syslog",
		"old or odd":            "vm86 vm86old modify_ldt uselib ustat sysfs",
		"hidden socket family":  "socketcall",
	} {
		for name := range strings.FieldsSeq(names) {
			if !forbidden(name) {
				t.Errorf("%s: %s is missing", group, name)
			}
		}
	}
}

func TestTheProfileIsTheDefaultOneForAContainerWithoutCapabilities(t *testing.T) {
	for arch, want := range map[string][]specs.Arch{
		"amd64": {specs.ArchX86_64, specs.ArchX86, specs.ArchX32},
		"arm64": {specs.ArchAARCH64, specs.ArchARM},
	} {
		p := profile(t, arch)
		if p.DefaultAction != specs.ActErrno || p.DefaultErrnoRet == nil || *p.DefaultErrnoRet != 38 {
			t.Errorf("%s: the default is %s %v, want ERRNO 38", arch, p.DefaultAction, p.DefaultErrnoRet)
		}
		if !slices.Equal(p.Architectures, want) {
			t.Errorf("%s: the architectures are %v, want %v", arch, p.Architectures, want)
		}
		names := allowed(p)
		for _, name := range []string{"read", "write", "openat", "mmap", "clone", "futex", "exit_group", "prctl"} {
			if !names[name] {
				t.Errorf("%s: %s is not allowed", arch, name)
			}
		}
		if names["arch_prctl"] != (arch == "amd64") {
			t.Errorf("%s: arch_prctl allowed: %t", arch, names["arch_prctl"])
		}
		if len(names) <= 300 {
			t.Errorf("%s: only %d names are allowed", arch, len(names))
		}
		for _, name := range append([]string{"clone3"}, Never...) {
			if names[name] {
				t.Errorf("%s: %s is allowed", arch, name)
			}
		}
	}
}

// The flags of clone3 are in memory, where no filter sees them.
func TestCloneIsMaskedAndClone3AnswersENOSYS(t *testing.T) {
	for arch := range native {
		var masked bool
		for _, rule := range profile(t, arch).Syscalls {
			if slices.Contains(rule.Names, "clone") && rule.Action == specs.ActAllow {
				const namespaces = 0x7E020000
				want := []specs.LinuxSeccompArg{{Index: 0, Value: namespaces, Op: specs.OpMaskedEqual}}
				if !reflect.DeepEqual(rule.Args, want) {
					t.Errorf("%s: clone is allowed with %+v, want %+v", arch, rule.Args, want)
				}
				masked = true
			}
			if slices.Contains(rule.Names, "clone3") && (rule.Action != specs.ActErrno || rule.ErrnoRet == nil || *rule.ErrnoRet != 38) {
				t.Errorf("%s: clone3 has the rule %+v", arch, rule)
			}
		}
		if !masked {
			t.Errorf("%s: clone has no rule", arch)
		}
	}
}

func TestConditionsOnArgumentsSurvive(t *testing.T) {
	for arch := range native {
		seen := make(map[string]int)
		for _, rule := range profile(t, arch).Syscalls {
			if len(rule.Args) > 0 {
				for _, name := range rule.Names {
					seen[name]++
				}
			} else if slices.Contains(rule.Names, "socket") || slices.Contains(rule.Names, "personality") {
				t.Errorf("%s: %v is allowed with any argument", arch, rule.Names)
			}
		}
		if seen["socket"] < 2 || seen["personality"] != 2 {
			t.Errorf("%s: socket has %d rules, personality %d, want several and 2", arch, seen["socket"], seen["personality"])
		}
		// What the kernel is asked for by socket: no AF_ALG (38), no AF_VSOCK (40).
		for _, family := range []uint64{38, 40} {
			for _, rule := range profile(t, arch).Syscalls {
				if slices.Contains(rule.Names, "socket") && fits(rule.Args, family) {
					t.Errorf("%s: a socket of family %d is allowed by %+v", arch, family, rule.Args)
				}
			}
		}
	}
}

func fits(args []specs.LinuxSeccompArg, value uint64) bool {
	for _, a := range args {
		if a.Index != 0 {
			continue
		}
		ok := map[specs.LinuxSeccompOperator]bool{
			specs.OpEqualTo: value == a.Value, specs.OpGreaterThan: value > a.Value,
			specs.OpLessThan: value < a.Value, specs.OpNotEqual: value != a.Value,
			specs.OpLessEqual: value <= a.Value, specs.OpGreaterEqual: value >= a.Value,
			specs.OpMaskedEqual: value&a.Value == a.ValueTwo,
		}[a.Op]
		if !ok {
			return false
		}
	}
	return true
}

func TestTheReductionOnlyTightens(t *testing.T) {
	module := make(map[string]bool)
	for _, rule := range seccomp.DefaultProfile().Syscalls {
		if rule.Action == specs.ActAllow {
			for _, name := range rule.Names {
				module[name] = true
			}
		}
	}
	for arch := range native {
		for name := range allowed(profile(t, arch)) {
			if !module[name] {
				t.Errorf("%s: %s is allowed here and not by the default profile", arch, name)
			}
		}
	}
}

// A rule that refuses with another errno than the default would answer with
// it; there is none, so every refusal is ENOSYS.
func TestEveryRefusalAnswersENOSYS(t *testing.T) {
	for arch := range native {
		for i, rule := range profile(t, arch).Syscalls {
			if rule.Action != specs.ActAllow && (rule.ErrnoRet == nil || *rule.ErrnoRet != 38) {
				t.Errorf("%s: syscalls[%d] is %+v", arch, i, rule)
			}
			if len(rule.Names) == 0 {
				t.Errorf("%s: syscalls[%d] names nothing", arch, i)
			}
		}
	}
}

func TestTheJSONHasTheKeysOfTheRuntimeSpecificationAlone(t *testing.T) {
	for arch := range native {
		b, err := json.Marshal(profile(t, arch))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"includes", "excludes", "comment", "archMap", "minKernel"} {
			if strings.Contains(string(b), `"`+key+`"`) {
				t.Errorf("%s: there is the key %q", arch, key)
			}
		}
	}
}

// A new kind of condition in the module would be passed over in silence.
func TestTheModulesConditionsAreThoseThatAreUnderstood(t *testing.T) {
	filter := reflect.TypeFor[seccomp.Filter]()
	var fields []string
	for field := range filter.Fields() {
		fields = append(fields, field.Name)
	}
	if !slices.Equal(fields, []string{"Caps", "Arches", "MinKernel"}) {
		t.Errorf("a filter's conditions are %v", fields)
	}
	for i, rule := range seccomp.DefaultProfile().Syscalls {
		if len(rule.Names) == 0 {
			t.Errorf("rule %d names nothing, at least not in the form that is read", i)
		}
		for _, f := range []*seccomp.Filter{rule.Includes, rule.Excludes} {
			if f == nil || f.MinKernel == nil {
				continue
			}
			for _, name := range rule.Names {
				if !forbidden(name) {
					t.Errorf("rule %d asks for kernel %v and names %s, which is not on the never-list", i, f.MinKernel, name)
				}
			}
		}
	}
}

func TestConditionsOfEachKindAreResolved(t *testing.T) {
	one, eperm := uint(1), uint(1)
	rule := func(name string, action specs.LinuxSeccompAction, in, out *seccomp.Filter) *seccomp.Syscall {
		return &seccomp.Syscall{
			LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: action}, Includes: in, Excludes: out, Comment: "why",
		}
	}
	refusing := rule("mount", specs.ActErrno, nil, nil)
	refusing.ErrnoRet = &eperm
	p := &seccomp.Seccomp{
		LinuxSeccomp: specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &one},
		ArchMap:      []seccomp.Architecture{{Arch: specs.ArchX86_64, SubArches: []specs.Arch{specs.ArchX86}}},
		Syscalls: []*seccomp.Syscall{
			rule("plain", specs.ActAllow, nil, nil),
			rule("capability", specs.ActAllow, &seccomp.Filter{Caps: []string{"CAP_SYS_ADMIN"}}, nil),
			rule("here", specs.ActAllow, &seccomp.Filter{Arches: []string{"x32", "amd64"}}, nil),
			rule("elsewhere", specs.ActAllow, &seccomp.Filter{Arches: []string{"s390"}}, nil),
			rule("not-here", specs.ActAllow, nil, &seccomp.Filter{Arches: []string{"amd64"}}),
			rule("lifted", specs.ActAllow, nil, &seccomp.Filter{Caps: []string{"CAP_SYS_ADMIN"}}),
			rule("mount", specs.ActAllow, nil, nil),
			refusing,
		},
	}
	got, err := reduce(p, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range got.Syscalls {
		names = append(names, r.Names...)
	}
	if !slices.Equal(names, []string{"plain", "here", "lifted", "mount"}) {
		t.Errorf("the rules name %v", names)
	}
	if last := got.Syscalls[len(got.Syscalls)-1]; last.Action != specs.ActErrno || *last.ErrnoRet != 1 {
		t.Errorf("a rule that refuses became %+v", last)
	}
	if _, err := reduce(p, "arm64"); err == nil {
		t.Error("an architecture that the profile does not know is accepted")
	}
	p.DefaultAction = specs.ActAllow
	if _, err := reduce(p, "amd64"); err == nil {
		t.Error("a profile that allows by default is accepted")
	}
}

func TestAnArchitectureWithoutAProfileIsAnError(t *testing.T) {
	for _, arch := range []string{"", "386", "riscv64"} {
		if _, err := Profile(arch); err == nil {
			t.Errorf("%q has a profile", arch)
		}
	}
}

func TestACallersCopyIsItsOwn(t *testing.T) {
	p := profile(t, "amd64")
	p.Syscalls[0].Names[0] = "changed"
	*p.DefaultErrnoRet = 1
	p.Architectures[0] = "changed"
	if q := profile(t, "amd64"); q.Syscalls[0].Names[0] == "changed" || *q.DefaultErrnoRet != 38 || q.Architectures[0] == "changed" {
		t.Error("a change of one copy is seen in another")
	}
}

// A new release of the module is looked at before it is taken.
func TestTheAllowedCallsAreTheOnesThatWereReviewed(t *testing.T) {
	for arch := range native {
		name := filepath.Join("testdata", arch+".allowed")
		got := strings.Join(slices.Sorted(maps.Keys(allowed(profile(t, arch)))), "\n") + "\n"
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the allowed calls are not those of %s; look at the difference, then go test ./crun/seccomp -update", arch, name)
		}
	}
}

func TestTheProfileForGVisorRefusesTheSameCallsWithTheActionThatAnswersENOSYSThere(t *testing.T) {
	for arch := range native {
		p := profile(t, arch)
		g := ForGVisor(p)
		if g.DefaultAction != specs.ActTrace || len(g.Syscalls) != len(p.Syscalls) {
			t.Errorf("%s: the default is %s, with %d rules of %d", arch, g.DefaultAction, len(g.Syscalls), len(p.Syscalls))
		}
		if !maps.Equal(allowed(g), allowed(p)) {
			t.Errorf("%s: other calls are allowed", arch)
		}
		for i, rule := range g.Syscalls {
			if rule.Action != specs.ActAllow && rule.Action != specs.ActTrace || !reflect.DeepEqual(rule.Args, p.Syscalls[i].Args) {
				t.Errorf("%s: syscalls[%d] is %+v", arch, i, rule)
			}
		}
		if allowed(g)["ptrace"] {
			t.Errorf("%s: somebody could trace", arch)
		}
	}
}
