package probe_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestTheReportHasTheDigestAndSizeOfEachCommand(t *testing.T) {
	f := good(t)
	got := probe.Run(t.Context(), f.manifest, f.Room).Commands
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	want := []wire.CommandReport{
		{Command: "scanner", Path: "/usr/local/bin/scanner", SHA256: sum("one"), Size: 3},
		{Command: "/usr/bin/other", Path: "/usr/bin/other", SHA256: sum("two"), Size: 3},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheDigestIsTheOneOfSha256sum(t *testing.T) {
	tool, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("not run: there is no sha256sum")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, self).Output()
	if err != nil {
		t.Fatal(err)
	}
	f := good(t)
	f.Root = ""
	f.manifest.Probe.Commands = []string{self}
	got := probe.Run(t.Context(), f.manifest, f.Room).Commands
	if len(got) != 1 || !strings.HasPrefix(string(out), got[0].SHA256+" ") {
		t.Errorf("got %+v, sha256sum says %s", got, out)
	}
}

func TestTheRealWitnessHasTheFilterAndNoNewPrivileges(t *testing.T) {
	f := good(t)
	f.Exchanges = []string{t.TempDir()}
	f.proc(t, "mounts", strings.Replace(mounts, "/bundle", f.Exchanges[0], 1))
	f.Witness = probe.Here("/work", "/work", "/usr/bin").Witness
	for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
		if v.Outcome != wire.Pass {
			t.Errorf("%s is %s: %s", v.ID, v.Outcome, v.Detail)
		}
		if v.ID == wire.AssertSeccomp || v.ID == wire.AssertWorkDir {
			t.Log(v.Detail)
		}
	}
}

func TestHereIsThisProcess(t *testing.T) {
	r := probe.Here("/w", "/h", "/p")
	if r.WorkDir != "/w" || r.Home != "/h" || r.Path != "/p" || r.PID != os.Getpid() || r.PPID != os.Getppid() || r.EUID != os.Geteuid() {
		t.Errorf("got %+v", r)
	}
	if len(r.Environ) != 0 {
		t.Error("the environment was read without being given")
	}
}

func TestCreateOpensForWritingAndFollowsNothing(t *testing.T) {
	create := probe.Here("", "", "").Create
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"new": nil, "fifo": unix.ENXIO, "link": unix.ELOOP, "missing/file": unix.ENOENT, ".": unix.EISDIR,
	} {
		if err := create(filepath.Join(dir, name)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}

func TestWritableAsksTheKernel(t *testing.T) {
	writable := probe.Here("", "", "").Writable
	dir := t.TempDir()
	if !writable(dir) {
		t.Errorf("%s can't be written", dir)
	}
	if writable("/proc/self/status") && os.Geteuid() != 0 {
		t.Error("/proc/self/status can be written")
	}
	if writable(filepath.Join(dir, "missing")) {
		t.Error("what does not exist can be written")
	}
}

func TestNothingStopsAChildThatOutgrowsALimitNobodyEnforces(t *testing.T) {
	o, err := probe.Here("", "", "").Outgrow(t.Context(), 16)
	if want := (probe.Outgrown{TouchedMB: 80}); err != nil || o != want {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
}

func TestACancelledMemoryCheckIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := probe.Here("", "", "").Outgrow(ctx, 1<<20); !errors.Is(err, context.Canceled) || o.Stopped {
		t.Errorf("got %+v, %v", o, err)
	}
}

// inMemoryCgroup is the argv[0] of a child that joins the cgroup in its first
// argument before it tries the wall.
const inMemoryCgroup = "probe-in-memory-cgroup"

func TestMain(m *testing.M) {
	if os.Args[0] == inMemoryCgroup {
		if err := os.WriteFile(filepath.Join(os.Args[1], "cgroup.procs"), []byte("0"), 0); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		o, err := probe.Here("", "", "").Outgrow(context.Background(), 64)
		fmt.Printf("%v %q %v %v\n", o.Stopped, o.How, o.TouchedMB > 8 && o.TouchedMB <= 64, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAMemoryCgroupStopsTheChildAndNotTheProbe(t *testing.T) {
	dir := memoryCgroup(t, 64)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Args[0] = inMemoryCgroup
	out, err := cmd.CombinedOutput()
	if want := "true \"SIGKILL\" true <nil>\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// memoryCgroup makes a cgroup with a memory limit of so many MiB and no swap.
func memoryCgroup(t *testing.T, mib int) string {
	t.Helper()
	for _, v := range []struct{ parent, limit, swap, most string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", fmt.Sprint(mib << 20)},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "0"},
	} {
		dir, err := os.MkdirTemp(v.parent, "probe-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, v.limit), fmt.Appendf(nil, "%d", mib<<20), 0) == nil {
			_ = os.WriteFile(filepath.Join(dir, v.swap), []byte(v.most), 0)
			return dir
		}
	}
	t.Skip("not run: this user can make no memory cgroup")
	return ""
}
