// Package engine gives a test container engines of its own, which it may break:
// a podman with a store of its own, and a docker daemon that can be killed. No
// container of anybody else is in either.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// callTime bounds one call of an engine's command line.
const callTime = time.Minute

// Engine is one engine and everything that it keeps.
type Engine struct {
	// Name is "podman" or "docker".
	Name string
	// Dir holds all that the engine writes; Env is what its command line needs
	// besides this process's environment.
	Dir string
	Env []string
}

// Say is one call of the engine's command line, and what it printed.
func (e *Engine) Say(ctx context.Context, stdin []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Name, args...)
	cmd.Env = append(os.Environ(), e.Env...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", e.Name, strings.Join(args[:min(2, len(args))], " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// Import makes an image of a tar file.
func (e *Engine) Import(ctx context.Context, layer []byte, name string) error {
	_, err := e.Say(ctx, layer, "import", "-", name)
	return err
}

// needRoot skips a test that has no engine to break.
func needRoot(t testing.TB, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: an engine of the test's own needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("not run: no %s here", p)
		}
	}
}

// newDir is an engine's directory. It is short, because sockets are made in it.
func newDir(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbx-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// remove ends what an engine has left running, and removes its directory with
// what is mounted in it.
func remove(dir string) error {
	end(dir)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var faults []error
	lines := slices.Collect(strings.Lines(string(mounts)))
	slices.Reverse(lines)
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			faults = append(faults, unix.Unmount(f[1], unix.MNT_DETACH))
		}
	}
	// What was mounted may be let go of a moment later.
	deadline := time.Now().Add(5 * time.Second)
	for err = os.RemoveAll(dir); err != nil && time.Now().Before(deadline); err = os.RemoveAll(dir) {
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return errors.Join(append(faults, err)...)
}

// end kills the processes that have an engine's directory among their
// arguments, such as shims, and their children, such as containers.
func end(dir string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() || !strings.Contains(string(line), dir+"/") {
			continue
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Podman is a podman with a store, a state and locks of its own; its networks
// are the host's, as their addresses are. base is the containers.conf that this
// host needs, or empty. It is gone with the test.
func Podman(t testing.TB, base string) *Engine {
	t.Helper()
	needRoot(t, "podman")
	e := &Engine{Name: "podman", Dir: newDir(t, "podman")}
	t.Cleanup(func() {
		if err := remove(e.Dir); err != nil {
			t.Error(err)
		}
	})
	conf, storage := filepath.Join(e.Dir, "containers.conf"), filepath.Join(e.Dir, "storage.conf")
	e.Env = []string{"CONTAINERS_CONF=" + conf, "CONTAINERS_STORAGE_CONF=" + storage}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, own(t, base, e.Dir))
	write(storage, fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n",
		filepath.Join(e.Dir, "graph"), filepath.Join(e.Dir, "run")))
	if _, err := e.Say(t.Context(), nil, "info"); err != nil {
		t.Skipf("not run: podman does not work here: %v", err)
	}
	return e
}

// own is a containers.conf whose engine shares nothing with the host's own.
func own(t testing.TB, base, dir string) string {
	t.Helper()
	content := "[engine]\n"
	if base != "" {
		b, err := os.ReadFile(base)
		if err != nil {
			t.Fatal(err)
		}
		content = string(b)
	}
	if !strings.Contains(content, "[engine]\n") {
		content += "\n[engine]\n"
	}
	// A store that is not the default one would have its networks apart too, and
	// give its bridges the names of others'.
	if !strings.Contains(content, "[network]") {
		content += "\n[network]\nnetwork_config_dir = \"/etc/containers/networks\"\n"
	}
	return strings.Replace(content, "[engine]\n", fmt.Sprintf("[engine]\ntmp_dir = %q\nstatic_dir = %q\nvolume_path = %q\nlock_type = \"file\"\n",
		filepath.Join(dir, "tmp"), filepath.Join(dir, "static"), filepath.Join(dir, "volumes")), 1)
}
