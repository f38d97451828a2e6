package janitor_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/janitor"
)

// TestMain lets the test binary be the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[0] == "worker" {
		worker(os.Args[1:])
	}
	os.Exit(m.Run())
}

// worker makes directories that its janitor knows, says so, and waits.
func worker(dirs []string) {
	var j janitor.Janitor
	for _, dir := range dirs {
		if j.Add(dir) != nil || os.MkdirAll(filepath.Join(dir, "deep/er"), 0o700) != nil {
			os.Exit(1)
		}
	}
	j.Done(dirs[0])
	os.Stdout.WriteString("ready\n")
	for {
		_ = syscall.Pause()
	}
}

func startWorker(t *testing.T, dirs ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"worker"}, dirs...)
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

func TestAKilledProcessesDirectoriesAreRemoved(t *testing.T) {
	base := t.TempDir()
	done, left, closed := filepath.Join(base, "done"), filepath.Join(base, "left\nline"), filepath.Join(base, "closed")
	cmd := startWorker(t, done, left, closed)
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, dir := range []string{left, closed} {
		if !eventually(func() bool { return missing(dir) }) {
			t.Errorf("%q is still there", dir)
		}
	}
	if missing(done) {
		t.Error("a directory that was done with was removed")
	}
}

func TestTheJanitorIgnoresWhatEndsItsProcessGroup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var j janitor.Janitor
	if err := j.Add(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pid := processOf(t)
	if !eventually(func() bool { return ignores(pid, syscall.SIGTERM) }) {
		t.Fatal("the janitor never came to ignore signals")
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Errorf("the janitor ended: %v", err)
	}
	if !missing(dir) {
		t.Error("the directory is still there")
	}
}

func TestAJanitorThatWasKilledIsReplaced(t *testing.T) {
	base := t.TempDir()
	first, second := filepath.Join(base, "first"), filepath.Join(base, "second")
	var j janitor.Janitor
	if err := j.Add(first); err != nil {
		t.Fatal(err)
	}
	pid := processOf(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return !alive(pid) }) {
		t.Fatal("the janitor is still there")
	}
	if err := j.Add(second); err != nil {
		t.Fatal(err)
	}
	if processOf(t) == pid {
		t.Fatal("no new janitor was started")
	}
	for _, dir := range []string{first, second} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if !missing(first) || !missing(second) {
		t.Error("a directory is still there")
	}
}

func TestAClosedJanitorTakesNothingAndLeavesNoProcess(t *testing.T) {
	var j janitor.Janitor
	if err := j.Add(filepath.Join(t.TempDir(), "run")); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Add("/nowhere"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want os.ErrClosed", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// processOf is the pid of the one child of this process.
func processOf(t *testing.T) int {
	t.Helper()
	pids := children(t)
	if len(pids) != 1 {
		t.Fatalf("children are %v, want one", pids)
	}
	return pids[0]
}

func children(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range files {
		b, _ := os.ReadFile(name)
		for field := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// ignores reads SigIgn, a mask in hexadecimal, of /proc/<pid>/status.
func ignores(pid int, sig syscall.Signal) bool {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := strings.Cut(string(b), "SigIgn:")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	return err == nil && mask&(1<<(uint(sig)-1)) != 0
}

func eventually(is func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		if is() {
			return true
		}
	}
	return is()
}
