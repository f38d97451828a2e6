package crun

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAnOOMKillIsReadFromTheEventsAndAnUnknownOneIsNotANo(t *testing.T) {
	for what, c := range map[string]struct {
		v2, v1        string
		killed, known bool
	}{
		"a kill":         {"low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\noom_group_kill 0\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", true, true},
		"none":           {"oom 3\noom_kill 0\n", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", false, true},
		"many":           {"oom_kill 12\n", "oom_kill 12\n", true, true},
		"no such line":   {"oom 1\noom_group_kill 1\n", "oom_kill_disable 1\n", false, false},
		"no number":      {"oom_kill many\n", "oom_kill \n", false, false},
		"nothing in it":  {"", "", false, false},
		"no such cgroup": {"-", "-", false, false},
	} {
		root := t.TempDir()
		v2 := group{layout: layout{v2: root, all: []string{root}}, parent: "p", run: "r"}
		v1 := group{layout: layout{v1: map[string]string{"memory": root}, all: []string{root}}, parent: "p", run: "r"}
		if c.v2 != "-" {
			put(t, filepath.Join(root, "p/r/memory.events"), c.v2)
			put(t, filepath.Join(root, "p/r/c/memory.oom_control"), c.v1)
		}
		for name, g := range map[string]group{"v2": v2, "v1": v1} {
			if killed, known := g.oomKilled(); killed != c.killed || known != c.known {
				t.Errorf("%s, %s: got %t, %t", what, name, killed, known)
			}
		}
	}
}

func TestTheContainersCgroupIsBelowTheRuns(t *testing.T) {
	g := group{layout: layout{v2: "/sys/fs/cgroup"}, parent: "batlehub-sandbox", run: "r"}
	if g.path() != "/batlehub-sandbox/r/c" || g.dir("/sys/fs/cgroup") != "/sys/fs/cgroup/batlehub-sandbox/r" {
		t.Errorf("got %s and %s", g.path(), g.dir("/sys/fs/cgroup"))
	}
}

// A tree of ordinary files stands in for a kernel that hands no controller
// down: the files that a cgroup has are not there.
func TestACgroupWithoutItsFilesIsRefused(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.subtree_control"), "cpu memory pids")
	put(t, filepath.Join(root, "p/cgroup.subtree_control"), "cpu memory pids")
	v2 := layout{v2: root, all: []string{root}}
	if _, err := v2.tryChild(t.Context(), "p", "try"); err == nil || !strings.Contains(err.Error(), "memory.max") {
		t.Errorf("v2: got %v", err)
	}
	v1 := layout{v1: map[string]string{"cpu": root, "memory": root, "pids": root}, all: []string{root}}
	if _, err := v1.tryChild(t.Context(), "p", "try"); err == nil || !strings.Contains(err.Error(), "cpu.cfs_period_us") {
		t.Errorf("v1: got %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "p/try")); err == nil {
		t.Error("the try is left behind")
	}
	missing := layout{v2: filepath.Join(root, "none"), all: []string{filepath.Join(root, "none")}}
	if _, err := missing.tryChild(t.Context(), "p", "try"); err == nil {
		t.Error("a hierarchy that is not there can be used")
	}
}

func TestACgroupThatIsThereIsNotTakenForANewOne(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.subtree_control"), "cpu memory pids")
	put(t, filepath.Join(root, "p/cgroup.subtree_control"), "cpu memory pids")
	put(t, filepath.Join(root, "p/r/memory.max"), "max")
	g := group{layout: layout{v2: root, all: []string{root}}, parent: "p", run: "r"}
	if err := g.make(limits{memory: 1, cpu: 1, pids: 1}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
}

func TestTheLimitsAreWrittenToTheRunsOwnCgroup(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"memory.max": "", "memory.swap.max": "", "cpu.max": "", "pids.max": "", "cgroup.subtree_control": "x"}
	for name, content := range files {
		put(t, filepath.Join(root, name), content)
	}
	for file, value := range map[string]string{"memory.max": "1073741824", "cpu.max": "25000 100000", "pids.max": "64"} {
		if err := set(filepath.Join(root, file), value); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(b) != value {
			t.Errorf("%s is %q, %v", file, b, err)
		}
	}
	if err := enable(root); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); string(b) != "+cpu +memory +pids" {
		t.Errorf("the controllers are handed down with %q", b)
	}
	if err := set(filepath.Join(root, "no-such-file"), "1"); err == nil {
		t.Error("a file that no cgroup has is made")
	}
}

// realGroup is a run's cgroup of this host's.
func realGroup(t *testing.T, parent string) group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make cgroups")
	}
	l, fault := host{}.layout(Runc)
	if fault != nil {
		t.Skipf("not run: %v", fault)
	}
	t.Cleanup(func() { l.removeParent(parent) })
	return group{layout: l, parent: parent, run: "r"}
}

// exists says whether the run's cgroup is there, in any hierarchy.
func exists(g group) bool {
	return slices.ContainsFunc(g.layout.all, func(mount string) bool {
		_, err := os.Lstat(g.dir(mount))
		return err == nil
	})
}

// Here the kernel answers: a real cgroup with limits is made, read and removed.
func TestARealCgroupHasTheRunsLimits(t *testing.T) {
	g := realGroup(t, "batlehub-test-limits")
	l := g.layout
	if err := g.make(limits{memory: 64 << 20, cpu: 25_000, pids: 16}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"memory.max": "67108864", "cpu.max": "25000 100000", "pids.max": "16"}
	dir := func(string) string { return g.dir(l.v2) }
	if l.isV1() {
		files = map[string]string{"memory.limit_in_bytes": "67108864", "cpu.cfs_quota_us": "25000", "pids.max": "16"}
		dir = func(file string) string { return g.dir(l.v1[strings.Split(file, ".")[0]]) }
	}
	for file, want := range files {
		b, err := os.ReadFile(filepath.Join(dir(file), file))
		if err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s is %q, %v, want %q", file, b, err, want)
		}
	}
	if err := g.make(limits{memory: 1 << 20, cpu: 1000, pids: 1}); err == nil {
		t.Error("it is made twice")
	}
	if err := g.remove(t.Context()); err != nil || exists(g) {
		t.Errorf("removing it: %v, still there: %t", err, exists(g))
	}
	if err := g.remove(t.Context()); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestALimitOfProcessesThatWasMetIsReadFromTheEvents(t *testing.T) {
	for what, c := range map[string]struct {
		file, events string
		want         bool
	}{
		"met, of the run":         {"p/r/pids.events", "max 3\n", true},
		"met, of the container":   {"p/r/c/pids.events", "max 1\n", true},
		"not met":                 {"p/r/pids.events", "max 0\n", false},
		"another count":           {"p/r/pids.events", "maximum 3\n", false},
		"what is no count":        {"p/r/pids.events", "max many\n", false},
		"another run's":           {"p/s/pids.events", "max 3\n", false},
		"nothing that could tell": {"p/r/memory.events", "max 3\n", false},
	} {
		for _, v1 := range []bool{false, true} {
			root := t.TempDir()
			l := layout{v2: root, all: []string{root}}
			if v1 {
				l = layout{v1: map[string]string{"pids": root}, all: []string{root}}
			}
			put(t, filepath.Join(root, c.file), c.events)
			if got := (group{layout: l, parent: "p", run: "r"}).fullOfProcesses(); got != c.want {
				t.Errorf("%s: %t, want %t (v1: %t)", what, got, c.want, v1)
			}
		}
	}
}

func TestACgroupInWhichSomethingRunsIsNotEmpty(t *testing.T) {
	g := realGroup(t, "batlehub-test-empty")
	if g.removeEmpty() {
		t.Error("what is not there is said to be removed")
	}
	least := limits{memory: 64 << 20, cpu: 25_000, pids: 16}
	if err := g.make(least); err != nil {
		t.Fatal(err)
	}
	mount := g.layout.memory()
	if g.layout.isV1() {
		if err := g.join(least); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Mkdir(filepath.Join(g.dir(mount), container), 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	err := set(filepath.Join(g.dir(mount), container, "cgroup.procs"), strconv.Itoa(sleeper.Process.Pid))
	if err != nil || g.removeEmpty() || !exists(g) || !slices.Equal(processes(g.dir(mount)), []int{sleeper.Process.Pid}) {
		t.Errorf("%v; removed with a process in it, of which there are %v", err, processes(g.dir(mount)))
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait()
	if !g.removeEmpty() || exists(g) {
		t.Error("not removed once it is empty")
	}
	// The cgroup of all runs is nobody's to remove like this.
	if (group{layout: g.layout, parent: g.parent}).removeEmpty() {
		t.Error("a cgroup without a name is removed")
	}
}

// A cgroup's age is its directory's, and an empty directory of this test's will
// do for one.
func TestWhatIsLeftOfTryingIsRemovedOnceItIsOld(t *testing.T) {
	root := t.TempDir()
	l := layout{v2: root, all: []string{root}}
	old := time.Now().Add(-time.Minute)
	for name, removed := range map[string]bool{
		tryPrefix + "old": true, tryPrefix + "new": false, "batlehub-sbx-try-scanner-1-x": false, tryPrefix + "busy": false,
	} {
		dir := filepath.Join(root, "p", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "busy") {
			put(t, filepath.Join(dir, "in-the-way"), "")
		}
		if !strings.HasSuffix(name, "new") {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
		l.removeTried("p")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) != removed {
			t.Errorf("%s: %v, removed is to be %t", name, err, removed)
		}
	}
	l.removeTried("nobodys")
}

func TestACgroupThatCantBeRemovedIsAnError(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "p/r/file"), "in the way")
	g := group{layout: layout{v2: root, all: []string{root}}, parent: "p", run: "r"}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := g.remove(ctx); err == nil || !strings.Contains(err.Error(), "/p/r") {
		t.Errorf("got %v", err)
	}
	if err := (group{layout: g.layout, parent: "p"}).remove(ctx); err == nil {
		t.Error("a cgroup without a name can be removed")
	}
}

func TestTheLeastCPUIsTheLeastThatTheKernelTakes(t *testing.T) {
	engineOf(t, "runc")
	l, fault := host{}.layout(Runc)
	if fault != nil {
		t.Skipf("not run: %v", fault)
	}
	for milli, taken := range map[int64]bool{minCPUMilli: true, minCPUMilli - 1: false} {
		g := group{layout: l, parent: "batlehub-test-" + strings.ToLower(rand.Text()[:8]), run: "r"}
		err := g.make(limitsOf(Container{Limits: wire.Limits{MemoryMB: 64, Processes: 16}, CPUMilli: milli}))
		if removing := g.remove(t.Context()); removing != nil {
			t.Error(removing)
		}
		l.removeParent(g.parent)
		if (err == nil) != taken {
			t.Errorf("%d thousandths of a CPU: %v", milli, err)
		}
	}
}
