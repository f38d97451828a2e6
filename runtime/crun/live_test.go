package crun

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// lived is a runtime over a real program and the real agent, in a room with a
// few dynamic programs of this host and their libraries.
func live(t *testing.T, program string, change func(*Config)) *Runtime {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make user namespaces' maps, mounts and cgroups")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("not run: there is no %s here", program)
	}
	rooms := testkit.Dir(t)
	var from []room.Source
	programs := []string{"cat", "env", "ls", "sleep", "head", "tail", "id", "readlink", "touch"}
	for _, name := range programs {
		p, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("not run: there is no %s here", name)
		}
		from = append(from, room.Source{Path: p, To: "/usr/bin/" + name})
	}
	dir := filepath.Join(rooms, "scanner")
	if _, err := room.Build(t.Context(), dir, room.Options{
		Agent: testkit.Agent(t), From: from, Commands: programs, Libraries: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := WritePin(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	c := Config{Program: path, Rooms: rooms, StateDir: filepath.Join(testkit.Dir(t), "state"), CgroupParent: "batlehub-test"}
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func scan(argv ...string) sandbox.RunSpec {
	limits := wire.DefaultLimits()
	return sandbox.RunSpec{
		Bundle:       sandbox.Bundle{Policy: wire.DefaultExtractPolicy()},
		Argv:         argv,
		StartTimeout: 30 * time.Second,
		Timeout:      30 * time.Second,
		Limits:       limits,
		Label:        wire.Label{Worker: "test", Job: "job", Scanner: "scanner", Attempt: 1},
	}
}

func TestFirst(t *testing.T) {
	r := live(t, "runc", nil)
	began := time.Now()
	out, err := r.Run(t.Context(), scan("env"))
	t.Logf("%s %q %+v %v", time.Since(began), out.Stdout, out.Result, err)
	for range 3 {
		began = time.Now()
		out, err = r.Run(t.Context(), scan("cat", "/proc/self/mounts", "/proc/self/status", "/proc/self/cgroup"))
		t.Logf("%s %s %v", time.Since(began), out.Stdout, err)
	}
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{"cat"}, Limits: wire.DefaultLimits()})
	t.Logf("%v %v", report.Err(), err)
	for _, v := range report.Verdicts {
		t.Logf("%+v", v)
	}
}
