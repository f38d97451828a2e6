package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shared is the directory of everything that is built once: programs, rooms.
// Uid 65532 has to reach it, which a test's own directory does not allow.
var shared string

func TestMain(m *testing.M) {
	// What a killed sandboxctl leaves running becomes a child of this process,
	// and so is seen.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "becoming a subreaper:", err)
		os.Exit(1)
	}
	var err error
	if shared, err = os.MkdirTemp("", "sandboxctl-test-"); err == nil {
		err = os.Chmod(shared, 0o755) //nolint:gosec // see shared
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(status)
}

// programs builds sandboxctl, the agent beside it, and the tool.
var programs = sync.OnceValue(func() error {
	for name, pkg := range map[string]string{
		"sandboxctl": ".", "batlehub-sandbox": "../../../agent/cmd/batlehub-sandbox", "tool": "./testdata/tool",
	} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(shared, name), pkg)
		if name != "sandboxctl" {
			cmd.Dir = "."
		}
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", name, err, out)
		}
	}
	return nil
})

func built(t *testing.T, name string) string {
	t.Helper()
	if err := programs(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(shared, name)
}

// gitleaks is the real scanner: built by ./task gitleaks, or found on PATH.
func gitleaks(t *testing.T) string {
	t.Helper()
	for _, path := range []string{os.Getenv("GITLEAKS"), "../../../out/bin/gitleaks"} {
		if abs, err := filepath.Abs(path); path != "" && err == nil {
			if info, err := os.Stat(abs); err == nil && info.Mode().IsRegular() {
				return abs
			}
		}
	}
	if path, err := exec.LookPath("gitleaks"); err == nil {
		return path
	}
	t.Skip("not run: there is no gitleaks; ./task gitleaks builds it")
	return ""
}

func needBwrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("not run: there is no bwrap on PATH")
	}
}

var roomsOnce sync.Map

// testRoom builds a room once and returns the rooms' directory.
func testRoom(t *testing.T, name, file string) string {
	t.Helper()
	needBwrap(t)
	rooms := filepath.Join(shared, "rooms")
	build, _ := roomsOnce.LoadOrStore(name, sync.OnceValue(func() error {
		r := sandboxctl(t, nil, "tree", name, "--rooms", rooms, "--file", file, "--command", filepath.Base(file))
		if r.status != 0 {
			return errors.New(r.stderr)
		}
		return nil
	}))
	if err := build.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return rooms
}

// runDir is a place for run directories that must be empty in the end.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(shared, "run-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see shared
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type result struct {
	status         int
	stdout, stderr string
	took           time.Duration
}

// sandboxctl runs the built program to its end. Its environment is extra and
// where its temporary directory is, and nothing else.
func sandboxctl(t *testing.T, extra []string, args ...string) result {
	t.Helper()
	// Building takes its own time.
	built(t, "sandboxctl")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := command(ctx, t, extra, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begun := time.Now()
	err := cmd.Run()
	if _, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(begun)}
}

func command(ctx context.Context, t *testing.T, extra []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, built(t, "sandboxctl"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + shared, "HOME=/nonexistent"}, extra...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

const unsafeEnv = "BATLEHUB_UNSAFE_NO_SANDBOX=1"

// put writes a file of a test and returns its path.
func put(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secret looks like an access key to gitleaks and stands nowhere in writing.
func secret() string { return "AKIA" + strings.Join([]string{"QYLP", "MN5H", "HHFP", "ZAM2"}, "") }

type entry struct{ name, text string }

func tgz(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(e.text))})
		if err == nil {
			_, err = w.Write([]byte(e.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// leftovers waits, at most a second, until nothing of a run is left: no
// process below this one and nothing in dir. It returns what is left.
func leftovers(t *testing.T, dir string) string {
	t.Helper()
	var left []string
	await(time.Second, func() bool {
		left = append(children(os.Getpid()), names(t, dir)...)
		return len(left) == 0
	})
	return strings.Join(left, "; ")
}

// await looks again and again until done says so, or for so long.
func await(long time.Duration, done func() bool) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.After(long); !done(); {
		select {
		case <-look.C:
		case <-end:
			return
		}
	}
}

// children describes the live processes below pid, and reaps the dead ones.
func children(pid int) []string {
	for {
		if got, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); got <= 0 || err != nil {
			break
		}
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []string
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(b)) {
			argv, _ := os.ReadFile("/proc/" + child + "/cmdline")
			all = append(all, child+" "+strings.ReplaceAll(strings.TrimRight(string(argv), "\x00"), "\x00", " "))
		}
	}
	return all
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func devFull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("not run: there is no /dev/full: ", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
