// Package testkit has what the tests of several runtimes need: the agent,
// rooms, and directories that another uid can reach.
package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// AgentEnv names the agent's binary for a test that can't build it, such as
// one that runs as a user without a home.
const AgentEnv = "BATLEHUB_TEST_AGENT"

// ToolEnv names ToolPackage's binary, likewise.
const ToolEnv = "BATLEHUB_TEST_TOOL"

// Dir is a temporary directory that every uid can reach, as t.TempDir is not.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

var built = struct {
	sync.Mutex
	dir      string
	programs map[string]string
}{programs: make(map[string]string)}

// Build builds a Go program statically, once per test binary, and returns its
// path. It is removed by Clean.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if p := built.programs[pkg]; p != "" {
		return p
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("not run: there is no go here to build %s with", pkg)
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "sandbox-test-bin-")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	out := filepath.Join(built.dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, b)
	}
	built.programs[pkg] = out
	return out
}

// Clean removes what Build built. TestMain calls it at the end.
func Clean() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}

// Agent is the path of the real agent.
func Agent(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(AgentEnv); p != "" {
		return p
	}
	return Build(t, "github.com/batleforc/batlehub-sandbox/agent/cmd/batlehub-sandbox")
}

// Tool is the path of the program that images of tests hold.
func Tool(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(ToolEnv); p != "" {
		return p
	}
	return Build(t, ToolPackage)
}

// Rooms makes a directory of rooms with one room in it, which holds an agent
// and sources.
func Rooms(t testing.TB, scanner, agent string, from ...room.Source) string {
	t.Helper()
	rooms := Dir(t)
	if _, err := room.Build(t.Context(), filepath.Join(rooms, scanner), room.Options{Agent: agent, From: from}); err != nil {
		t.Fatal(err)
	}
	return rooms
}

// Eventually asks until the answer is yes, for a time at most.
func Eventually(within time.Duration, is func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-tick.C {
		if is() {
			return true
		}
	}
	return is()
}
