package seccomp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

var after = []string{"close_range", "execve"}

// own is a profile as a recorder writes one.
func own(change func(*specs.LinuxSeccomp)) *specs.LinuxSeccomp {
	p := &specs.LinuxSeccomp{
		DefaultAction: specs.ActKillProcess,
		Architectures: []specs.Arch{specs.ArchX86_64},
		Syscalls: []specs.LinuxSyscall{
			{Names: []string{"read", "write"}, Action: specs.ActAllow},
			{
				Names: []string{"socket"}, Action: specs.ActAllow,
				Args: []specs.LinuxSeccompArg{{Index: 0, Value: 1, Op: specs.OpEqualTo}},
			},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

func encoded(t *testing.T, p any) (b []byte, pin string) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return b, pinOf(b)
}

func pinOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestAnOwnProfileIsTheFilesRulesAndTheRuntimesOwnCalls(t *testing.T) {
	p := own(nil)
	b, pin := encoded(t, p)
	got, err := Own(b, pin, "amd64", after)
	if err != nil {
		t.Fatal(err)
	}
	last := len(got.Syscalls) - 1
	if !reflect.DeepEqual(got.Syscalls[:last], p.Syscalls) {
		t.Errorf("the file's rules became %+v", got.Syscalls[:last])
	}
	if want := (specs.LinuxSyscall{Names: after, Action: specs.ActAllow}); !reflect.DeepEqual(got.Syscalls[last], want) {
		t.Errorf("the last rule is %+v, want %+v", got.Syscalls[last], want)
	}
	if got.DefaultAction != specs.ActKillProcess {
		t.Errorf("the default is %s", got.DefaultAction)
	}
}

func TestAProfileOfOtherBytesThanThePinnedOnesIsRefused(t *testing.T) {
	b, pin := encoded(t, own(nil))
	for i := range b {
		flipped := slices.Clone(b)
		flipped[i] ^= 1
		if _, err := Own(flipped, pin, "amd64", after); !errors.Is(err, ErrPin) {
			t.Fatalf("byte %d: got %v", i, err)
		}
	}
	for _, bad := range []string{"", "sha256:", strings.TrimPrefix(pin, "sha256:"), "sha512" + pin} {
		if _, err := Own(b, bad, "amd64", after); !errors.Is(err, ErrPin) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestAProfileThatAllowsWhatNobodyMayIsRefused(t *testing.T) {
	for _, name := range append([]string{"clone3", "clone", "io_uring_setup", "io_uring_enter", "io_uring_register"}, Never...) {
		b, pin := encoded(t, own(func(p *specs.LinuxSeccomp) { p.Syscalls[0].Names = []string{"read", name} }))
		if _, err := Own(b, pin, "amd64", after); !errors.Is(err, ErrOwn) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheProfileOfAllScannersAllowsNoRing(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p, err := Profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range p.Syscalls {
			for _, name := range rule.Names {
				if rule.Action == specs.ActAllow && strings.HasPrefix(name, ring) {
					t.Errorf("%s: it allows %s", arch, name)
				}
			}
		}
	}
}

func TestAMaskedCloneAndARefusalOfAForbiddenCallAreAccepted(t *testing.T) {
	b, pin := encoded(t, own(func(p *specs.LinuxSeccomp) {
		p.Syscalls = append(p.Syscalls,
			specs.LinuxSyscall{
				Names: []string{"clone"}, Action: specs.ActAllow,
				Args: []specs.LinuxSeccompArg{{Index: 0, Value: 0x7E020000, Op: specs.OpMaskedEqual}},
			},
			specs.LinuxSyscall{Names: []string{"clone3", "mount"}, Action: specs.ActErrno, ErrnoRet: new(uint(38))},
		)
	}))
	if _, err := Own(b, pin, "amd64", after); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNoProfileIsRefused(t *testing.T) {
	files := map[string][]byte{
		"nothing":     nil,
		"no JSON":     []byte("x"),
		"a list":      []byte("[]"),
		"empty":       []byte("{}"),
		"other keys":  []byte(`{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_X86_64"],"archMap":[]}`),
		"two of them": []byte(`{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_X86_64"]} {}`),
	}
	for what, change := range map[string]func(*specs.LinuxSeccomp){
		"allows by default":    func(p *specs.LinuxSeccomp) { p.DefaultAction = specs.ActAllow },
		"logs by default":      func(p *specs.LinuxSeccomp) { p.DefaultAction = specs.ActLog },
		"no architecture":      func(p *specs.LinuxSeccomp) { p.Architectures = nil },
		"another architecture": func(p *specs.LinuxSeccomp) { p.Architectures = []specs.Arch{specs.ArchAARCH64} },
		"a listener":           func(p *specs.LinuxSeccomp) { p.ListenerPath = "/run/socket" },
		"flags":                func(p *specs.LinuxSeccomp) { p.Flags = []specs.LinuxSeccompFlag{"SECCOMP_FILTER_FLAG_SPEC_ALLOW"} },
		"notifies":             func(p *specs.LinuxSeccomp) { p.Syscalls[0].Action = specs.ActNotify },
		"traces":               func(p *specs.LinuxSeccomp) { p.Syscalls[0].Action = specs.ActTrace },
		"logs":                 func(p *specs.LinuxSeccomp) { p.Syscalls[0].Action = specs.ActLog },
	} {
		files[what], _ = encoded(t, own(change))
	}
	for what, b := range files {
		if _, err := Own(b, pinOf(b), "amd64", after); !errors.Is(err, ErrOwn) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
