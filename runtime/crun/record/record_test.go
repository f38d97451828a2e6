package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
)

const trace = `101 openat(AT_FDCWD, "/proc/self/fd/4", O_WRONLY) = 5
101 write(5, "0", 1) = 1
102 futex(0xc000, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
101 mount("a", "b", NULL, MS_BIND, NULL) = 0
101 execve("/usr/local/bin/batlehub-sandbox", ["/usr/local/bin/batlehub-sandbox"...], 0xc0 /* 2 vars */) = 0
101 arch_prctl(ARCH_SET_FS, 0x1) = 0
101 uname({sysname="Linux"...}) = 0
103 +++ exited with 0 +++
101 --- SIGURG {si_signo=SIGURG} ---
104 clone3({flags=CLONE_VM}, 88) = -1 ENOSYS (Function not implemented)
104 socket(AF_UNIX, SOCK_STREAM, 0) = 3
104 <... statx resumed>) = 0
101 mount("x", "y", NULL, 0, NULL) = -1 ENOSYS (Function not implemented)
101 exit_group(0) = ?
`

const agent = "/usr/local/bin/batlehub-sandbox"

func TestATraceIsReadFromTheRoomsFirstInstructionOn(t *testing.T) {
	calls, err := Calls(strings.NewReader(trace), agent)
	want := []string{"arch_prctl", "clone3", "execve", "exit_group", "mount", "socket", "uname"}
	if err != nil || !slices.Equal(calls, want) {
		t.Errorf("got %q, %v, want %q", calls, err, want)
	}
	if _, err := Calls(strings.NewReader(trace), "/other"); err == nil {
		t.Error("a trace without the program is taken")
	}
	if calls, err := Calls(strings.NewReader(strings.TrimSuffix(trace, "\n")), agent); err != nil || len(calls) != len(want) {
		t.Errorf("a last line without an end: %q, %v", calls, err)
	}
}

func TestOfALongLineTheBeginningCounts(t *testing.T) {
	long := `101 chdir("` + strings.Repeat("101 reboot(", lineCap/4) + "\n"
	calls, err := Calls(strings.NewReader(trace+long+"101 sync() = 0\n"), agent)
	if err != nil || !slices.Contains(calls, "chdir") || !slices.Contains(calls, "sync") || slices.Contains(calls, "reboot") {
		t.Errorf("got %q, %v", calls, err)
	}
}

func TestACallThatTheTracerKnowsByNumberAloneHasItsName(t *testing.T) {
	calls, err := Calls(strings.NewReader(trace+"101 syscall_0x1c4(0x5, 0xc0, 0x1c0, 0x100, 0, 0) = 0\n"), agent)
	if err != nil || !slices.Contains(calls, "fchmodat2") {
		t.Errorf("got %q, %v", calls, err)
	}
	if _, err := Calls(strings.NewReader(trace+"101 syscall_0x9999(0) = 0\n"), agent); err == nil || !strings.Contains(err.Error(), "syscall_0x9999") {
		t.Errorf("got %v", err)
	}
}

func TestARecordedProfileAllowsWhatWasCalledAndRefusesTheRest(t *testing.T) {
	calls, err := Calls(strings.NewReader(trace), agent)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Profile(calls, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActKillProcess || !slices.Equal(p.Architectures, []specs.Arch{specs.ArchX86_64}) {
		t.Errorf("got %s, %v", p.DefaultAction, p.Architectures)
	}
	allowed := make(map[string]bool)
	var refused []string
	for _, rule := range p.Syscalls {
		for _, name := range rule.Names {
			if rule.Action == specs.ActAllow {
				allowed[name] = true
			} else {
				refused = append(refused, name)
			}
			if (name == "socket" || name == "clone") && len(rule.Args) == 0 {
				t.Errorf("%s lost its condition", name)
			}
		}
	}
	if !slices.Equal(refused, []string{"clone3", "mount"}) {
		t.Errorf("refused: %q", refused)
	}
	for _, name := range []string{"uname", "socket", "clone", "exit_group", "restart_syscall"} {
		if !allowed[name] {
			t.Errorf("%s is not allowed", name)
		}
	}
	for _, name := range []string{"openat", "connect", "bind", "mount"} {
		if allowed[name] {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestARecordedProfileIsOneThatARuntimeTakes(t *testing.T) {
	calls, err := Calls(strings.NewReader(trace), agent)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		p, err := Profile(append(calls, seccomp.Never...), arch)
		if err != nil {
			t.Fatal(err)
		}
		b, pin, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seccomp.Own(b, pin, arch, []string{"execve"}); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
	if _, err := Profile(calls, "vax"); err == nil {
		t.Error("there is a profile for any architecture")
	}
}
