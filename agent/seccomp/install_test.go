package seccomp_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// native returns the running architecture, or skips.
func native(t *testing.T) seccomp.Arch {
	t.Helper()
	for _, arch := range seccomp.Arches() {
		if arch.Name == runtime.GOARCH {
			return arch
		}
	}
	t.Skipf("not run: no filter for %s", runtime.GOARCH)
	return seccomp.Arch{}
}

// refusals has each rule's calls with arguments that meet its condition, once
// per value and once more with garbage in the high half.
func refusals(arch seccomp.Arch) []refusal {
	const ones = ^uint64(0)
	var list []refusal
	for _, r := range seccomp.Rules() {
		for _, name := range r.Calls {
			number, ok := arch.Numbers[name]
			if !ok {
				continue
			}
			one := refusal{Name: name, Number: number, Args: [6]uint64{ones, ones, ones, ones, ones, ones}, Want: uint32(r.Answer)}
			for _, value := range refusedValues(r.When) {
				if r.When != nil {
					one.Args[r.When.Arg] = value
				}
				list = append(list, one)
			}
		}
	}
	return list
}

func refusedValues(c *seccomp.Condition) []uint64 {
	switch {
	case c == nil:
		return []uint64{0}
	case c.Test == seccomp.NoneOf: // AF_PACKET, AF_ALG, AF_VSOCK, and no personality that passes
		return []uint64{17, 38, 40, 40 | 1<<32, 63, 0x7FFFFFFF}
	}
	var values []uint64
	for _, v := range c.Values {
		values = append(values, uint64(v.Value), uint64(v.Value)|0xDEADBEEF<<32)
	}
	return values
}

func TestRefusedCallsAnswerWithTheTablesErrnoInARealProcess(t *testing.T) {
	arch := native(t)
	list := refusals(arch)
	list = append(list,
		// ENOSYS for what does not exist, and no answer of ours for what is let through.
		refusal{Name: "a number above the highest known", Number: arch.Top() + 1, Want: uint32(seccomp.ENOSYS)},
		refusal{Name: "personality of 0xffffffff with garbage", Number: arch.Numbers["personality"], Args: [6]uint64{0xABCD_FFFF_FFFF}, Want: 0},
		refusal{Name: "socket of AF_UNIX", Number: arch.Numbers["socket"], Args: [6]uint64{1, 1}, Want: 0},
		refusal{Name: "socket of AF_NETLINK", Number: arch.Numbers["socket"], Args: [6]uint64{16, 3}, Want: 0},
		refusal{Name: "ioctl of no descriptor", Number: arch.Numbers["ioctl"], Args: [6]uint64{^uint64(0), 0x5401}, Want: 9},
	)
	if runtime.GOARCH == "amd64" {
		list = append(list, refusal{Name: "getpid of x32", Number: x32 | arch.Numbers["getpid"], Want: uint32(seccomp.ENOSYS)})
	}
	input, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := underStage(t.Context(), t, "stage-refusals", string(input))
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	var got []uint32
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(list) {
		t.Fatalf("%d answers to %d calls, %v", len(got), len(list), err)
	}
	for i, r := range list {
		if got[i] != r.Want {
			t.Errorf("%s(%#x) answered errno %d, want %d", r.Name, r.Args, got[i], r.Want)
		}
	}
	t.Logf("%d calls made", len(list))
}

func TestTheFilterGoesOnEveryThread(t *testing.T) {
	native(t)
	out, err := underStage(t.Context(), t, "stage-threads").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 5 {
		t.Fatalf("%d threads, want at least the five that were started: %q", len(lines), lines)
	}
	for _, line := range lines {
		if line != "Seccomp:\t2" {
			t.Errorf("a thread shows %q", line)
		}
	}
}

func TestInstallWithoutNoNewPrivsIsRefused(t *testing.T) {
	native(t)
	if nnp(t) {
		t.Skip("not run: no_new_privs is already set on this process")
	}
	out, err := underStage(t.Context(), t, "stage-no-nnp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), "installing the seccomp filter: permission denied"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func nnp(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), "NoNewPrivs:\t1")
}

func TestThe32BitGateOfA64BitProgramIsClosed(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("not run: only amd64 has this gate")
	}
	program := compileC(t, "gcc", "int80.c")
	without, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(without), "getpid 1\n") {
		t.Skipf("not run: this kernel has no 32-bit calls (%v, %q)", err, without)
	}
	with, err := underStage(t.Context(), t, "stage-exec", program).CombinedOutput()
	if want := "getpid -38\nunshare -38\n"; err != nil || string(with) != want {
		t.Errorf("under the filter: %v, %q, want %q", err, with, want)
	}
}

// find returns a program's path, or skips.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("not run: there is no %s", name)
	}
	return path
}

func compileC(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	args := slices.Concat([]string{"-O1", "-pthread", "-o", out, filepath.Join("testdata", source)}, flags)
	if b, err := exec.CommandContext(t.Context(), find(t, compiler), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", compiler, err, b)
	}
	return out
}
