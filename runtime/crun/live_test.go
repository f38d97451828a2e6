package crun

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// engine is the path of a real program, ready to be used on this host.
func engineOf(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make user namespaces' maps, mounts and cgroups")
	}
	program, err := exec.LookPath(name)
	if err != nil && name == "runsc" {
		program, err = exec.LookPath(os.Getenv(runscEnv))
	}
	if err != nil {
		t.Skipf("not run: there is no %s here", name)
	}
	program, err = filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	if name == "crun" && hybrid() {
		return beside(t, program)
	}
	return program
}

// runscEnv names a runsc that is not on PATH.
const runscEnv = "BATLEHUB_TEST_RUNSC"

const unified = cgroupRoot + "/unified/cgroup.controllers"

func hybrid() bool {
	_, err := os.Stat(unified)
	return err == nil
}

// beside is a crun that does not see the second half of a hybrid cgroup
// layout, which it refuses to work with. It works on the first half then.
func beside(t *testing.T, program string) string {
	t.Helper()
	dir := testkit.Dir(t)
	empty, wrapper := filepath.Join(dir, "empty"), filepath.Join(dir, "crun")
	script := "#!/bin/sh\nexec unshare -m --propagation private sh -c 'mount --bind " + empty + " " + unified +
		" && exec " + program + " \"$@\"' crun \"$@\"\n"
	for name, content := range map[string]string{empty: "", wrapper: script} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return wrapper
}

// programs are what the rooms of the tests hold.
var programs = []string{"cat", "env", "ls", "sleep", "head", "tail", "id", "readlink", "touch"}

// live is a runtime over a real program and the real agent, in a room with a
// few dynamic programs of this host and their libraries.
func live(t *testing.T, name string, change func(*Config)) *Runtime {
	t.Helper()
	program := engineOf(t, name)
	rooms := testkit.Dir(t)
	var from []room.Source
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
	return over(t, program, rooms, change)
}

// over is a runtime over a program and rooms. When the test ends nothing may
// be left of it.
func over(t *testing.T, program, rooms string, change func(*Config)) *Runtime {
	t.Helper()
	c := Config{
		Program: program, Rooms: rooms, StateDir: filepath.Join(testkit.Dir(t), "state"),
		CgroupParent: "batlehub-test-" + strings.ToLower(rand.Text()[:8]),
	}
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.host.hidden = hybrid()
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, r)
	})
	return r
}

// nothingLeft sees that no bundle, no state of a program, no mount and no
// cgroup is left of a runtime.
func nothingLeft(t *testing.T, r *Runtime) {
	t.Helper()
	for _, f := range Flavours {
		for _, dir := range []string{r.bundlesDir(f), r.rootDir(f)} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				t.Errorf("%s is left", filepath.Join(dir, e.Name()))
			}
		}
	}
	mounts, err := r.host.mountinfo()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.point, r.config.StateDir) {
			t.Errorf("%s is still mounted", m.point)
		}
		dir := filepath.Join(m.point, r.config.CgroupParent)
		if _, err := os.Stat(dir); strings.HasPrefix(m.fstype, "cgroup") && err == nil {
			t.Errorf("the cgroup %s is left", dir)
		}
	}
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
	r := live(t, os.Getenv("P"), nil)
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
