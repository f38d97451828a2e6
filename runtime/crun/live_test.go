package crun

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
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
	nothingInState(t, r)
	mounts, err := r.host.mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.Mountpoint, r.config.StateDir) {
			t.Errorf("%s is still mounted", m.Mountpoint)
		}
		dir := filepath.Join(m.Mountpoint, r.config.CgroupParent)
		if _, err := os.Stat(dir); strings.HasPrefix(m.FSType, "cgroup") && err == nil {
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

// nothingInState sees that there is no bundle and no container. What runsc
// keeps for all sandboxes stays until the runtime is closed, and crun keeps the
// filters that it has compiled.
func nothingInState(t *testing.T, r *Runtime) {
	t.Helper()
	for _, f := range Flavours {
		for _, dir := range []string{r.bundlesDir(f), r.rootDir(f)} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if e.Name() != nullNetNS && e.Name() != ".cache" {
					t.Errorf("%s is left", filepath.Join(dir, e.Name()))
				}
			}
		}
	}
}

// each runs a test over every program that there is here.
func each(t *testing.T, test func(t *testing.T, r *Runtime, f Flavour)) {
	for _, f := range Flavours {
		t.Run(string(f), func(t *testing.T) {
			if f == Runsc && (host{}).ramdisk() {
				t.Skip("not run: runsc is refused on a root that can't be left")
			}
			test(t, live(t, string(f), nil), f)
		})
	}
}

func TestTheProbePassesOverEveryProgram(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		limits := wire.DefaultLimits()
		limits.MemoryMB = 192
		if f == Runsc {
			// Its kernel needs some of it, and may die with the child: see probeAgain.
			limits.MemoryMB = 256
		}
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{"cat", "/usr/bin/ls"}, Limits: limits})
		if err != nil || report.UID != DefaultUID || report.Agent == "" || len(report.Verdicts) != len(wire.Assertions) {
			t.Fatalf("got %+v, %v", report, err)
		}
		for i, v := range report.Verdicts {
			if v.ID != wire.Assertions[i] || v.Outcome != wire.Pass {
				t.Errorf("verdict %+v", v)
			}
			if part := onGVisor[v.ID]; f == Runsc && !strings.Contains(v.Detail, part) || f != Runsc && part != "" && strings.Contains(v.Detail, part) {
				t.Errorf("%s: %s", v.ID, v.Detail)
			}
		}
	})
}

// onGVisor is what gVisor's sandboxes are seen to have in place of two walls:
// it answers EACCES before EROFS where the directory belongs to somebody else,
// and no mount of runsc has nodev.
var onGVisor = map[wire.AssertionID]string{
	wire.AssertReadOnlyRoot: "/, which it is on, is mounted ro",
	wire.AssertWorkDir:      "no way to make a device",
}

func TestASandboxIsWhatItsConfigurationSays(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		out, err := r.Run(t.Context(), scan("cat", "/proc/self/status", "/proc/self/cgroup", "/proc/sys/kernel/hostname"))
		if err != nil {
			t.Fatal(err)
		}
		said := string(out.Stdout)
		for _, line := range []string{
			"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
			"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Groups:\t \n", "Seccomp:\t2", "Uid:\t65532\t65532\t65532\t65532", "batlehub-sandbox\n",
		} {
			if f == Runsc && !strings.HasPrefix(line, "CapB") && strings.ContainsAny(line[:1], "CNG") {
				continue // gVisor shows not all of them
			}
			if !strings.Contains(said, line) {
				t.Errorf("there is no line %q in\n%s", line, said)
			}
		}
		if strings.Contains(said, "batlehub-sbx") || strings.Contains(said, r.config.CgroupParent) {
			t.Errorf("the cgroup shows whose run it is:\n%s", said)
		}
		out, err = r.Run(t.Context(), scan("env"))
		if lines := strings.Fields(string(out.Stdout)); err != nil || len(lines) != 2 {
			t.Errorf("the environment is %q, %v", lines, err)
		}
	})
}

// All that a run can write is its scratch space; where the kernel has
// Landlock, the result's place is closed to the scanner too.
func TestNothingButTheScratchSpaceCanBeWritten(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		for _, place := range []string{"/", "/bundle", "/out", "/dev", "/proc", "/usr/bin", "/proc/sys/kernel"} {
			out, err := r.Run(t.Context(), scan("touch", place+"/new"))
			if err != nil {
				t.Fatal(err)
			}
			if f == Runsc && place == "/out" {
				continue // gVisor has no Landlock
			}
			if out.Status == nil || *out.Status == 0 {
				t.Errorf("%s can be written", place)
			}
		}
		for _, place := range []string{"/work", "/tmp"} {
			if out, err := r.Run(t.Context(), scan("touch", place+"/new")); err != nil || out.Status == nil || *out.Status != 0 {
				t.Errorf("%s can't be written: %q, %v", place, out.StderrTail, err)
			}
		}
	})
}

func archive(t *testing.T, name, content string) sandbox.Artifact {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write([]byte(content))
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return bundle.BytesArtifact(b.Bytes())
}

func TestAPackageIsUnpackedInsideAndScanned(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, _ Flavour) {
		spec := scan("cat", "pkg/package/index.js", "rules")
		spec.Bundle.Entries = []wire.Entry{
			{Path: wire.MustRelPath("pkg"), Kind: wire.Archive, URL: wire.ArtifactURL},
			{Path: wire.MustRelPath("rules"), Kind: wire.File, Inline: []byte(" world"), Size: 6},
		}
		spec.Bundle.Artifact = archive(t, "package/index.js", "hello")
		out, err := r.Run(t.Context(), spec)
		if err != nil || string(out.Stdout) != "hello world" || out.Result.Extraction.Files != 1 || *out.Status != 0 {
			t.Errorf("got %q, %+v, %v", out.Stdout, out.Result, err)
		}
		spec.Bundle.Artifact = archive(t, "../../escaped", "x")
		out, err = r.Run(t.Context(), spec)
		if err != nil || out.Refused() == nil || out.Status != nil {
			t.Errorf("got %+v, %v, want a refusal", out, err)
		}
		out, err = r.Run(t.Context(), scan("cat", "/no/such/file"))
		if err != nil || out.Status == nil || *out.Status != 1 || !strings.Contains(out.StderrTail, "/no/such/file") {
			t.Errorf("got %+v, %v", out, err)
		}
	})
}

func hungry() sandbox.RunSpec {
	spec := scan("tail", "/dev/zero")
	spec.Limits.AddressSpaceMB, spec.Limits.MemoryMB = wire.AddressSpaceOff, 96
	spec.Bundle.Policy.MaxBytes, spec.Bundle.Policy.MaxFileBytes = 32<<20, 32<<20
	return spec
}

func TestAScannerThatTakesTooMuchMemoryIsSaidToHave(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		if f == Crun && hybrid() {
			t.Skip("not run: crun takes its cgroup away with the container, and v1 tells nothing above it")
		}
		_, err := r.Run(t.Context(), hungry())
		e := asFault(t, err)
		if e.Kind != sandbox.Crashed || e.Code != sandbox.CodeOOMKilled || !e.OOMKilled {
			t.Errorf("got %+v", e)
		}
	})
}

// The program is killed while it starts the agent, and on v1 takes what could
// tell away with it.
func TestALimitThatNotEvenTheAgentFitsInIsNeverSaidNotToBeIt(t *testing.T) {
	r := live(t, "runc", nil)
	spec := scan("env")
	spec.Limits.MemoryMB, spec.Bundle.Policy.MaxBytes, spec.Bundle.Policy.MaxFileBytes = 2, 1<<20, 1<<20
	_, err := r.Run(t.Context(), spec)
	if e := asFault(t, err); e.Kind != sandbox.Crashed || !e.OOMKilled && !strings.Contains(e.Detail, "whether memory ran out is not known") {
		t.Errorf("got %+v", e)
	}
}

// What the flag is for is seen by leaving it out.
func TestARootThatCantBeLeftIsNotPivotedFrom(t *testing.T) {
	if !(host{}).ramdisk() {
		t.Skip("not run: this host's root is not the kernel's first file system")
	}
	for _, f := range []Flavour{Crun, Runc} {
		t.Run(string(f), func(t *testing.T) {
			r := live(t, string(f), nil)
			spec := scan("env")
			if out, err := r.Run(t.Context(), spec); err != nil || *out.Status != 0 {
				t.Errorf("got %+v, %v", out, err)
			}
			_, fault := r.runWith(t.Context(), spec, bundle.Manifest(spec, nil), false,
				func(ctx context.Context, e engine, g group, dir *bundle.Dir, name string) (process.Exit, error) {
					if !e.facts.Ramdisk {
						t.Error("the root is not recognised")
					}
					e.facts.Ramdisk = false
					return e.drive(ctx, g, runArgs(e.flavour, e.facts, dir.Path(), name), name)
				})
			if fault == nil || !strings.Contains(fault.Stderr, "pivot") {
				t.Errorf("without the flag: %+v", fault)
			}
		})
	}
}

func TestAHybridHostIsRefusedForCrunByItsName(t *testing.T) {
	if !hybrid() {
		t.Skip("not run: this host's cgroups are not hybrid")
	}
	r := live(t, "crun", nil)
	r.host.hidden = false
	_, err := r.Run(t.Context(), scan("env"))
	if e := asFault(t, err); e.Kind != sandbox.Refused || e.Code != sandbox.CodeNoEngine || !strings.Contains(e.Error(), "hybrid") {
		t.Errorf("got %v", err)
	}
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertResult || !strings.Contains(v.Detail, "hybrid") {
		t.Errorf("the probe says %+v, %v", v, err)
	}
}
