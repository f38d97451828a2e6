package bwrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestARunDirectoryIsGoneWhateverTheSandboxLeft(t *testing.T) {
	r, runs := live(t)
	if _, err := r.Run(t.Context(), verb("mess")); err != nil {
		t.Error(err)
	}
	nothingLeft(t, runs)
}

func TestAFullDiskUnderTheRunDirectoryIsOurs(t *testing.T) {
	r, runs := live(t)
	if err := os.MkdirAll(runs, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", runs, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=2m,mode=711"); err != nil {
		t.Skipf("not run: a small file system can't be mounted here: %v", err)
	}
	defer unix.Unmount(runs, unix.MNT_DETACH)
	_, err := r.Run(t.Context(), verb("fill"))
	if sandbox.CodeOf(err) != sandbox.CodeNoSpace || !strings.Contains(err.Error(), runs) {
		t.Errorf("got %v, want no_space that names %s", err, runs)
	}
	nothingLeft(t, runs)
}

// endsEverything runs a verb that waits, ends it by end once it runs, and
// looks that every process of it is gone when Run returns.
func endsEverything(t *testing.T, what string, change func(*sandbox.RunSpec), end func(r *Runtime, cancel func())) error {
	t.Helper()
	r, runs := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	spec := verb(what)
	if change != nil {
		change(&spec)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, spec)
		done <- err
	}()
	var tree []int
	want := 2
	if what == "hang" {
		want = 5
	}
	if !testkit.Eventually(5*time.Second, func() bool { tree = below(os.Getpid(), runs); return len(tree) >= want }) {
		t.Errorf("%d processes run, want %d", len(tree), want)
	}
	if end != nil {
		end(r, cancel)
	}
	err := <-done
	for _, pid := range tree {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	nothingLeft(t, runs)
	return err
}

// below lists the processes of the bwrap that runs over a run directory.
func below(pid int, runs string) []int {
	var tree []int
	for _, child := range process.Children(pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if !bytes.Contains(line, []byte(runs)) {
			continue
		}
		tree = append(tree, child)
		for i := len(tree) - 1; i < len(tree); i++ {
			tree = append(tree, process.Children(tree[i])...)
		}
	}
	return tree
}

func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestACancelledRunLeavesNoProcessAndNoDirectory(t *testing.T) {
	err := endsEverything(t, "hang", nil, func(_ *Runtime, cancel func()) { cancel() })
	if sandbox.KindOf(err) != sandbox.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
}

func TestAClosedRuntimeEndsItsRuns(t *testing.T) {
	err := endsEverything(t, "hang", nil, func(r *Runtime, _ func()) {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v, want cancelled", err)
	}
}

func TestAnAgentThatHangsIsARunTimeout(t *testing.T) {
	began := time.Now()
	err := endsEverything(t, "hang", func(s *sandbox.RunSpec) { s.StartTimeout, s.Timeout = time.Second, time.Second }, nil)
	if sandbox.KindOf(err) != sandbox.RunTimeout {
		t.Errorf("got %v, want a run timeout", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s, and may take two seconds", took)
	}
}

func TestAnAgentThatNeverFetchesIsAStartTimeout(t *testing.T) {
	err := endsEverything(t, "hang-start", func(s *sandbox.RunSpec) { s.StartTimeout, s.Timeout = time.Second, time.Minute }, nil)
	if sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v, want a start timeout", err)
	}
}

func startWorker(t *testing.T, rooms, runs, verb string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"worker", rooms, runs, verb}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestAWorkerThatIsKilledLeavesNoProcessAndNoDirectory(t *testing.T) {
	r, runs := live(t)
	worker := startWorker(t, r.config.Rooms, runs, "hang")
	var tree []int
	if !testkit.Eventually(5*time.Second, func() bool { tree = below(worker.Process.Pid, runs); return len(tree) >= 5 }) {
		t.Errorf("%d processes run, want 5", len(tree))
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	if !testkit.Eventually(10*time.Second, func() bool { return !slices.ContainsFunc(tree, running) && isEmpty(runs) }) {
		nothingLeft(t, runs)
		for _, pid := range tree {
			if running(pid) {
				t.Errorf("process %d is left", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func TestAWorkerThatIsKilledAtAnyMomentLeavesNothing(t *testing.T) {
	r, runs := live(t)
	for i := range 50 {
		// Each worker is killed somewhere else in its runs. About one in ten
		// leaves a child of bwrap's that waits for its dead parent, or an agent
		// that would go on without one.
		worker := startWorker(t, r.config.Rooms, runs, []string{"answer", "hang"}[i%2])
		<-time.After(time.Duration(i) * 1150 * time.Microsecond)
		_ = worker.Process.Kill()
		_ = worker.Wait()
		// On a busy machine its janitor may only be starting by now.
		if !testkit.Eventually(10*time.Second, func() bool { return isEmpty(runs) && len(naming(runs)) == 0 }) {
			nothingLeft(t, runs)
			t.Errorf("processes %v are left", naming(runs))
		}
	}
}

// naming lists the processes whose command line or mounts name a directory.
func naming(dir string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, name := range files {
		line, _ := os.ReadFile(name)
		mounts, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "mountinfo"))
		if bytes.HasPrefix(line, []byte("worker")) {
			continue
		}
		if bytes.Contains(line, []byte(dir)) || bytes.Contains(mounts, []byte(dir+"/")) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

func TestManyRunsLeaveNoDescriptorAndNoGoroutine(t *testing.T) {
	r, runs := live(t)
	run := func() {
		if _, err := r.Run(t.Context(), verb("answer")); err != nil {
			t.Fatal(err)
		}
	}
	run()
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	descriptors, goroutines := count(), runtime.NumGoroutine()
	for range 50 {
		run()
	}
	if !testkit.Eventually(10*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if n := count(); n > descriptors {
		t.Errorf("%d descriptors, %d before", n, descriptors)
	}
	nothingLeft(t, runs)
}
