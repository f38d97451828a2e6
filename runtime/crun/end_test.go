package crun

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestOnlyWhatARunHasWrittenIsItsCgroup(t *testing.T) {
	made := group{parent: "a/b", run: "name"}.path()
	for in, want := range map[string]string{
		made: "a/b", "/a/name/c": "a", "/name/c": "", "name/c": "", "": "", "/a/other/c": "", "/a/name": "", "/a/name/c/c": "",
		"/../name/c": "", "/a/../name/c": "", "/a//name/c": "", "a/name/c": "", "//name/c": "", "/a/xname/c": "",
	} {
		if parent, ok := parentIn(in, "name"); parent != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", in, parent, ok)
		}
	}
}

func TestALostCgroupIsNoReasonForAStartThatFailed(t *testing.T) {
	const exec = `runc run failed: unable to start container process: exec: "/usr/local/bin/agent": `
	const lost = "runc run failed: unable to apply cgroup configuration: failed to write 71: " +
		"open /sys/fs/cgroup/memory/batlehub-sandbox/x/c/cgroup.procs: no such file or directory"
	for stderr, want := range map[string]bool{
		"": false,
		"runc run failed: container init was OOM-killed (memory limit too low?)": false,
		exec + "permission denied":                        true,
		exec + "no such file or directory\n":              true,
		exec + "Exec format error":                        true,
		"crun: mount `proc` to `/proc`: Invalid argument": true,
		lost:                                     false,
		lost + "\n" + exec + "permission denied": true,
		"writing file `/cgroup/x/memory.max`: Invalid argument\nsomething else": false,
	} {
		if namesReason(stderr) != want {
			t.Errorf("%q: got %v", stderr, !want)
		}
	}
}

// The worker that was killed had another configuration than the one that sweeps.
func TestASweepFindsTheCgroupOfAnOlderConfiguration(t *testing.T) {
	for _, marked := range []string{"config.json", ""} {
		r, _ := stubbed(t, stub{})
		l, fault := r.host.layout(Runc)
		if fault != nil {
			t.Fatal(fault)
		}
		if _, err := r.Run(t.Context(), scan("true")); sandbox.KindOf(err) != sandbox.ResultInvalid {
			t.Fatal(err)
		}
		dir := filepath.Join(r.bundlesDir(Runc), "batlehub-sbx~killed~job~scanner~1~abcdefghijklmnop")
		parent := r.config.CgroupParent
		if marked != "" {
			parent += "/old"
		}
		g := group{layout: l, parent: parent, run: "batlehub-sbx-job-scanner-1-abcdefghijklmnop"}
		put(t, filepath.Join(dir, "owner.json"), `{"worker":"killed"}`)
		if marked != "" {
			put(t, filepath.Join(dir, marked), `{"linux":{"cgroupsPath":"`+g.path()+`"}}`)
		}
		if err := g.make(limits{memory: 64 << 20, cpu: cpuPeriod, pids: 16}); err != nil {
			t.Fatal(err)
		}
		swept, err := r.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "killed"})
		if err != nil || len(swept.Removed) != 1 {
			t.Errorf("swept %+v, %v", swept, err)
		}
		for _, mount := range l.all {
			for _, left := range []string{g.dir(mount), path.Dir(g.dir(mount))} {
				if _, err := os.Stat(left); err == nil && (marked != "" || left == g.dir(mount)) {
					t.Errorf("the cgroup %s is left", left)
				}
			}
		}
	}
}
