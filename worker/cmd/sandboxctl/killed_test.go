package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lasting is a sandboxctl that runs for an hour, with the id that it has.
type lasting struct {
	cmd *exec.Cmd
	id  string
}

// workerIDs are the ids that workers hold below a temporary directory.
func workerIDs(t *testing.T, tmp string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(tmp, "batlehub-sandbox-workers-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, path := range found {
		_, id, _ := strings.Cut(filepath.Base(path), ".")
		ids = append(ids, id)
	}
	return ids
}

// last starts a run that lasts, and waits until begun says that it is on its
// way.
func last(t *testing.T, tmp string, env, args []string, begun func(id string) bool) lasting {
	t.Helper()
	before := workerIDs(t, tmp)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	// A file: what runs on after a killed one holds no pipe of this test's.
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr")) //nolint:forbidigo // nobody else writes there
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	l := lasting{cmd: command(ctx, t, append(env, "TMPDIR="+tmp), append(args, "--", "tool", "deaf", "1h")...)}
	l.cmd.Stderr = stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	on := false
	await(time.Minute, func() bool {
		for _, id := range workerIDs(t, tmp) {
			if !strings.Contains(strings.Join(before, " "), id) {
				l.id = id
			}
		}
		on = l.id != "" && begun(l.id)
		return on
	})
	if !on {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
		said, _ := os.ReadFile(stderr.Name())
		t.Fatalf("worker %q has no run after a minute: %s", l.id, said)
	}
	return l
}

func (l lasting) end(sig syscall.Signal) {
	_ = l.cmd.Process.Signal(sig)
	_ = l.cmd.Wait()
}

// podmanPS are the names of the containers with those labels.
func podmanPS(t *testing.T, labels ...string) string {
	t.Helper()
	args := []string{"ps", "--all", "--format", "{{.Names}}"}
	for _, l := range labels {
		args = append(args, "--filter", "label=io.batlehub."+l)
	}
	out, err := exec.CommandContext(t.Context(), "podman", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// The container of a killed worker is removed by the next start, and no other:
// not a living worker's beside it, nor one of another host's.
func TestTheNextStartSweepsAKilledWorkersContainerAndNoOther(t *testing.T) {
	image := podmanImage(t)
	dir, tmp := runDir(t), runDir(t)
	flags := []string{"run", "--runtime", "oci", "--image", image, "--run-dir", dir}
	begun := func(id string) bool { return strings.Contains(podmanPS(t, "worker="+id), "-job-") }
	killed := last(t, tmp, engineEnv(), flags, begun)
	living := last(t, tmp, engineEnv(), flags, begun)
	defer living.end(syscall.SIGTERM)
	stranger := fmt.Sprintf("sandboxctl-stranger%d", os.Getpid())
	foreign := "batlehub-sbx-" + stranger
	out, err := exec.CommandContext(t.Context(), "podman", "run", "--detach", "--network", "none", "--userns", "auto", "--name", foreign,
		"--label", "io.batlehub.worker="+stranger, "--label", fmt.Sprintf("io.batlehub.deadline=%d", time.Now().Unix()),
		"--entrypoint", "tool", image, "deaf", "1h").CombinedOutput()
	t.Cleanup(func() { _ = exec.Command("podman", "rm", "--force", "--time", "0", "--ignore", foreign).Run() })
	if err != nil {
		t.Fatal(err, string(out))
	}
	killed.end(syscall.SIGKILL)
	left := podmanPS(t, "worker="+killed.id)
	if left == "" {
		t.Fatal("the killed worker left no container")
	}
	next := sandboxctl(t, append(engineEnv(), "TMPDIR="+tmp), append(flags, "--", "tool", "echo", "hello")...)
	if want := "INFO sandbox: swept the container " + left + " of worker " + killed.id + "\n"; next.status != 0 || next.stdout != "hello" || !strings.Contains(next.stderr, want) || strings.Contains(next.stderr, living.id) {
		t.Errorf("status %d, %q, want %q in\n%s", next.status, next.stdout, want, next.stderr)
	}
	if again := podmanPS(t, "worker="+killed.id); again != "" {
		t.Errorf("%s is still there", again)
	}
	for _, id := range []string{living.id, stranger} {
		if podmanPS(t, "worker="+id) == "" {
			t.Errorf("the container of %s is gone", id)
		}
	}
	if ids := workerIDs(t, tmp); len(ids) != 1 || ids[0] != living.id {
		t.Errorf("ids that are held: %q, want that of %s", ids, living.id)
	}
	living.end(syscall.SIGTERM)
	if again := podmanPS(t, "worker="+living.id); again != "" {
		t.Errorf("%s is still there", again)
	}
}

// The same without an engine.
func TestTheNextStartSweepsAKilledWorkersDirectContainer(t *testing.T) {
	d, tmp := directly(t, "runc"), runDir(t)
	flags := []string{"run", "--config", d.config, "--room", "tool", "--address-space-mb", "-1"}
	killed := last(t, tmp, nil, flags, func(id string) bool {
		runs, _ := filepath.Glob(filepath.Join(d.state, "*", "bundles", "*~"+id+"~job-*"))
		return len(runs) > 0
	})
	killed.end(syscall.SIGKILL)
	if d.left(t) == "" {
		t.Fatal("the killed worker left nothing")
	}
	next := sandboxctl(t, []string{"TMPDIR=" + tmp}, append(flags, "--", "tool", "echo", "hello")...)
	if next.status != 0 || next.stdout != "hello" || !strings.Contains(next.stderr, " of worker "+killed.id+"\n") {
		t.Errorf("status %d, %q\n%s", next.status, next.stdout, next.stderr)
	}
	left := ""
	await(5*time.Second, func() bool { left = d.left(t); return left == "" })
	if left != "" {
		t.Errorf("left behind: %s", left)
	}
	if ids := workerIDs(t, tmp); len(ids) != 0 {
		t.Errorf("ids that are held: %q", ids)
	}
}

// A host on which no id can be kept scans as any other, and says what it lacks.
func TestAnIDThatCantBeKeptIsOneWarning(t *testing.T) {
	d, tmp := directly(t, "runc"), runDir(t)
	place := filepath.Join(tmp, fmt.Sprintf("batlehub-sandbox-workers-%d", os.Geteuid()))
	if err := os.WriteFile(place, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	echo := []string{"--address-space-mb", "-1", "--", "tool", "echo", "hello"}
	r := sandboxctl(t, []string{"TMPDIR=" + tmp}, append([]string{"run", "--config", d.config, "--room", "tool"}, echo...)...)
	want := "sandboxctl: warning: this worker's id can't be kept in " + place + ": it is no directory; what it leaves if it is killed is swept by age alone; set TMPDIR to a directory that this user can write\n"
	if r.status != 0 || r.stdout != "hello" || r.stderr != want {
		t.Errorf("status %d, %q, stderr %q, want %q", r.status, r.stdout, r.stderr, want)
	}
	// What leaves nothing needs none.
	if r := sandboxctl(t, []string{unsafeEnv, "TMPDIR=" + tmp}, "run", "--runtime", "none", "--", built(t, "tool"), "echo", "hello"); r.status != 0 || r.stderr != "" {
		t.Errorf("runtime none: status %d, %q", r.status, r.stderr)
	}
}
