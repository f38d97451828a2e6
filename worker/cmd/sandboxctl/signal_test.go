package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// moments are when a signal comes, counted from the start: before the program
// listens, while it probes, between the two, and while the scanner runs.
var moments = []time.Duration{0, 5, 20, 60, 120, 200, 350, 800}

// A signal at any moment leaves no process and no directory a second later.
func TestASignalAtAnyMomentLeavesNothingBehind(t *testing.T) {
	for runtime, flags := range both(t, "tool", built(t, "tool")) {
		command := "tool"
		if runtime == "none" {
			command = built(t, "tool")
		}
		artifact := put(t, "a.tgz", tgz(t, entry{"a", "a"}))
		config := put(t, "c.toml", fmt.Appendf(nil, "[scanners.tool]\ncommand = %q\nargs = [\"deaf\", \"1h\"]\n", command))
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			for _, moment := range moments {
				dir := runDir(t)
				args := append(append([]string{}, flags...), "scan", "--config", config, "--run-dir", dir, artifact)
				status, stderr, begun := signalled(t, dir, sig, moment*time.Millisecond, args...)
				name := fmt.Sprintf("%s, %s after %dms", runtime, sig, moment)
				if left := leftovers(t, dir); left != "" {
					t.Errorf("%s left behind: %s", name, left)
				}
				checkSignalled(t, name, sig, begun, status, stderr)
			}
		}
	}
}

func checkSignalled(t *testing.T, name string, sig syscall.Signal, begun bool, status int, stderr string) {
	t.Helper()
	killed := status == -1
	switch {
	case sig == syscall.SIGKILL:
		if !killed {
			t.Errorf("%s: status %d, want a death by the signal", name, status)
		}
	case killed && !begun:
		// It may have come before the program listened.
	case status != exitSignal+int(sig):
		t.Errorf("%s: status %d, want %d; stderr %q", name, status, exitSignal+int(sig), stderr)
	case strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "sandboxctl: stopped by SIG"):
		t.Errorf("%s: stderr %q, want one line", name, stderr)
	}
}

// signalled starts sandboxctl, sends it a signal after a while, and returns
// its status, -1 when the signal killed it, and whether a run had begun, which
// it does not before it listens.
func signalled(t *testing.T, dir string, sig syscall.Signal, after time.Duration, args ...string) (status int, said string, begun bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := command(ctx, t, []string{unsafeEnv}, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(after) // the moment is what is tested
	runs, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Errorf("it ended by itself before %s: %v", after, err)
	}
	err = cmd.Wait()
	if _, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String(), len(runs) > 0
}

// A terminal's Ctrl-C reaches the whole foreground group, and people press it
// more than once.
func TestImpatientSignalsDoNotStopTheCleanUp(t *testing.T) {
	dir := runDir(t)
	cmd := command(t.Context(), t, nil, "run", "--rooms", testRoom(t, "tool", built(t, "tool")), "--room", "tool", "--run-dir", dir, "--", "tool", "deaf", "1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(700 * time.Millisecond)
	for range 5 {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 130 && status != 143 || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// Whoever reads the output may go away at any time.
func TestAReaderThatGoesAwayEndsNothingHalfway(t *testing.T) {
	dir := runDir(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$@" | true`, "sh", built(t, "sandboxctl"), "run", "--rooms", testRoom(t, "tool", built(t, "tool")),
		"--room", "tool", "--run-dir", dir, "--", "tool", "flood", "2")
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("goroutine")) {
		t.Errorf("%v: %s", err, out)
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
