package build

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
)

func crunOptions(t *testing.T) Options {
	t.Helper()
	o := Options{Sandbox: sandboxConfig(t, "crun"), Worker: "w"}
	dir := t.TempDir()
	o.Sandbox.Crun.Rooms, o.Sandbox.Crun.StateDir = filepath.Join(dir, "rooms"), filepath.Join(dir, "state")
	return o
}

func TestWhatTheConfigurationTakesTheCrunRuntimeTakesToo(t *testing.T) {
	for user, good := range map[string]bool{"": true, "65532": true, "1:65535": true, "0:0": false, "1:0": false, "+1": false, "65536": false, "01": false, "1:": false, "1:1:1": false} {
		o := crunOptions(t)
		text := "[worker.sandbox]\nruntime = \"crun\"\n[worker.sandbox.crun]\n"
		if user != "" {
			text += "user = \"" + user + "\"\n"
		}
		file := filepath.Join(t.TempDir(), "c.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, refused := config.Load(file)
		o.Sandbox.Crun.User = user
		_, err := Runtime(o)
		if (refused == nil) != good || (err == nil) != good {
			t.Errorf("user %q: the configuration says %v, the runtime %v", user, refused, err)
		}
	}
}

func TestARoomThatIsNotThereIsHintedHowToBuildAndOneWithoutADigestHowToPin(t *testing.T) {
	o := crunOptions(t)
	b, err := Runtime(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	room := sandbox.Room{Scanner: "gitleaks", Commands: []string{"gitleaks"}}
	report, err := b.Probe(t.Context(), room)
	if want := "build it: sandboxctl tree gitleaks --rooms " + o.Sandbox.Crun.Rooms + " --file PATH/TO/gitleaks --command gitleaks (or --image ARCHIVE) --pin"; err != nil || report.Hint != want {
		t.Errorf("%q, %v, want %q", report.Hint, err, want)
	}
	agent := filepath.Join(o.Sandbox.Crun.Rooms, "gitleaks", crun.AgentPath)
	if err := os.MkdirAll(filepath.Dir(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(agent, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	report, err = b.Probe(t.Context(), room)
	if want := "pin it, after a look at what is in it: sandboxctl tree gitleaks --rooms " + o.Sandbox.Crun.Rooms + " --pin"; err != nil || report.Hint != want {
		t.Errorf("%q, %v, want %q", report.Hint, err, want)
	}
	digest, file, err := WritePin(t.Context(), filepath.Join(o.Sandbox.Crun.Rooms, "gitleaks"))
	if err != nil || file != filepath.Join(o.Sandbox.Crun.Rooms, "gitleaks.digest") || !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("%s %s %v", digest, file, err)
	}
	if report, err = b.Probe(t.Context(), room); err != nil || strings.Contains(report.Hint, "--pin") {
		t.Errorf("%q, %v", report.Hint, err)
	}
}

func TestARuntimeWithoutProfilesRecordsNone(t *testing.T) {
	b, err := Runtime(Options{Sandbox: sandboxConfig(t, "bwrap"), Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Record(t.Context(), "strace", sandbox.Room{}, nil, func(sandbox.RunOutput) {})
	if !config.IsConfig(err) || err.Error() != `scanners have no seccomp profiles of their own under runtime "bwrap"; they have under crun` {
		t.Errorf("error %v", err)
	}
}

func TestADoctorSeesWhatRuntimeCrunLacksHere(t *testing.T) {
	o := crunOptions(t)
	program := filepath.Join(t.TempDir(), "runc")
	script := "#!/bin/sh\necho runc version 9.9.9\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Sandbox.Crun.Program, o.Sandbox.Crun.UsernsBase = program, crun.DefaultUsernsBase
	direct := Host(o).Direct
	checks := map[string]doctor.Check{}
	for _, c := range direct.Examine(t.Context()) {
		checks[c.Name] = c
	}
	if c := checks["program"]; c.Outcome != doctor.Pass || c.Detail != program+", which is runc version 9.9.9" {
		t.Errorf("%+v", c)
	}
	if len(checks) != 5 {
		t.Errorf("%d checks: %+v", len(checks), checks)
	}
	c := direct.CheckRoom(t.Context(), doctor.Room{Scanner: "x", Command: "x"})
	if c.Outcome != doctor.Fail || !strings.Contains(c.Detail, "it is not there") || len(c.Fixes) != 1 || !strings.HasSuffix(c.Fixes[0], "--pin") {
		t.Errorf("%+v", c)
	}
	o.Sandbox.Crun.Program = filepath.Join(o.Sandbox.Crun.Rooms, "none")
	if c := Host(o).Direct.Examine(context.Background())[0]; c.Outcome != doctor.Fail || len(c.Fixes) != 1 {
		t.Errorf("%+v", c)
	}
	o.Sandbox.Crun.User = "0:0"
	if d := Host(o).Direct; !strings.Contains(d.Problem, "0:0") {
		t.Errorf("%+v", d)
	}
}
