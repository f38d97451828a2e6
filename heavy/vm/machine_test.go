package vm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// notRun is the status of scripts/vm.sh where there is no machine to be had.
const notRun = 125

// root is the checkout, absolute.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// long skips a test where only short ones are wanted, before anything is built
// for it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not run: -short")
	}
}

// boot runs a command in a new machine, with the options of scripts/vm.sh, and
// returns what it printed to stdout. It has to end well.
func boot(t *testing.T, options []string, command ...string) string {
	t.Helper()
	args := append([]string{filepath.Join(root(t), "scripts/vm.sh"), "run", "--seconds", "1800"}, options...)
	cmd := exec.CommandContext(t.Context(), "sh", append(append(args, "--"), command...)...)
	// It is told to end, so that it ends its machine.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notRun && strings.Contains(stderr.String(), "not run:") {
		t.Skip(strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// bin is the directory of what ./task build has built.
func bin(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(root(t), "out/bin")
	for _, name := range []string{"sandboxctl", agent, "gitleaks"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("%v; run ./task build gitleaks", err)
		}
	}
	return dir
}

// agent is the agent's name in it.
const agent = "batlehub-sandbox-linux-amd64"

// share shows a directory of this host at a place inside.
func share(inside, host string) []string { return []string{"--in", inside + "=" + host} }

// testBinary builds the tests of a package of this checkout, static, into a
// directory of its own.
func testBinary(t *testing.T, pkg string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(dir, "tests"), pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", pkg, err, out)
	}
	return dir
}
