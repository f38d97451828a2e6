package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// direct is a configuration of runtime crun over a program, with the tool for
// a scanner, in a room that is built and pinned.
type direct struct {
	program, config, rooms, state string
}

// directly skips where the program is missing or this is not root.
func directly(t *testing.T, program string) direct {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: runtime crun takes root")
	}
	path, err := exec.LookPath(program)
	if named := os.Getenv("BATLEHUB_TEST_RUNSC"); err != nil && program == "runsc" && named != "" {
		path, err = exec.LookPath(named)
	}
	if err != nil {
		t.Skipf("not run: there is no %s on PATH", program)
	}
	dir := runDir(t)
	d := direct{program: path, rooms: filepath.Join(dir, "rooms"), state: filepath.Join(dir, "state")}
	memory, extracted := 192, 64
	if program == "runsc" {
		memory = 512
	}
	d.config = put(t, "config.toml", fmt.Appendf(nil,
		"[worker.sandbox]\nruntime = \"crun\"\nmemory_limit_mb = %d\nmax_extracted_mb = %d\n"+
			"[worker.sandbox.crun]\nprogram = %q\nrooms = %q\nstate_dir = %q\ncgroup_parent = \"batlehub-test-%s\"\n"+
			"[scanners.tool]\ncommand = \"tool\"\nargs = [\"cat\", \"{artifact}/package/a.txt\"]\nfindings = \"lines\"\naddress_space_mb = -1\n",
		memory, extracted, path, d.rooms, d.state, filepath.Base(dir)))
	r := sandboxctl(t, nil, "tree", "--config", d.config, "tool", "--file", built(t, "tool"), "--command", "tool")
	pin := filepath.Join(d.rooms, "tool.digest")
	digest, err := os.ReadFile(pin)
	if r.status != 0 || err != nil || !strings.HasSuffix(r.stdout, pin+": pinned "+string(digest)) {
		t.Fatalf("status %d, %v\n%s%s", r.status, err, r.stdout, r.stderr)
	}
	return d
}

// left says what is left of the runs.
func (d direct) left(t *testing.T) string {
	t.Helper()
	bundles, err := filepath.Glob(filepath.Join(d.state, "*", "bundles", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(bundles, children(os.Getpid())...), "; ")
}

func (d direct) doctor(t *testing.T) map[string]struct{ Outcome, Detail string } {
	t.Helper()
	r := sandboxctl(t, nil, "doctor", "--config", d.config, "--format", "json")
	var got struct {
		Checks []struct{ Runtime, Name, Outcome, Detail string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err, r.stderr)
	}
	checks := map[string]struct{ Outcome, Detail string }{}
	for _, c := range got.Checks {
		if c.Runtime == "crun" {
			checks[c.Name] = struct{ Outcome, Detail string }{c.Outcome, c.Detail}
		}
	}
	return checks
}

// The whole way over each program: a room that is built and pinned, what a
// doctor says, the probe, a run, its answer, and nothing left.
func TestAScanOverAProgramWithoutEngineProvesTheRoomAndAnswers(t *testing.T) {
	for _, program := range []string{"runc", "runsc"} {
		t.Run(program, func(t *testing.T) {
			d := directly(t, program)
			for name, c := range d.doctor(t) {
				if c.Outcome != "PASS" && name != "open files" {
					t.Skipf("not run: this host can't: %s: %s", name, c.Detail)
				}
			}
			artifact := put(t, "a.tgz", tgz(t, entry{"package/a.txt", "one finding\n"}))
			r := sandboxctl(t, nil, "scan", "--config", d.config, "--format", "json", artifact)
			got := report(t, r)
			if r.status != ExitFindings || r.stderr != "" || got.Runtime != "crun" || len(got.Scanners) != 1 || got.Scanners[0].Total != 1 || len(got.Rooms) != 1 {
				t.Fatalf("status %d, stderr %q\n%s", r.status, r.stderr, r.stdout)
			}
			for _, v := range got.Rooms[0].Verdicts {
				if v.Outcome != wire.Pass {
					t.Errorf("%s is %s: %s", v.ID, v.Outcome, v.Detail)
				}
			}
			if left := d.left(t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestARoomThatIsNotTheOneThatWasPinnedIsRefusedUntilItIsPinnedAgain(t *testing.T) {
	d := directly(t, "runc")
	pin := filepath.Join(d.rooms, "tool.digest")
	if err := os.Remove(pin); err != nil {
		t.Fatal(err)
	}
	r := sandboxctl(t, nil, "probe", "--config", d.config)
	again := "sandboxctl tree tool --rooms " + d.rooms + " --pin"
	if r.status != ExitFailed || !strings.Contains(r.stderr, "no digest is pinned for it") || !strings.Contains(r.stderr, again) {
		t.Errorf("no pin: status %d, %q", r.status, r.stderr)
	}
	if r := sandboxctl(t, nil, "tree", "tool", "--rooms", d.rooms, "--pin"); r.status != 0 || !strings.HasPrefix(r.stdout, pin+": pinned sha256:") {
		t.Errorf("status %d, %q %q", r.status, r.stdout, r.stderr)
	}
	if c := d.doctor(t)["room tool"]; c.Outcome != "PASS" {
		t.Errorf("%+v", c)
	}
	if err := os.WriteFile(filepath.Join(d.rooms, "tool", "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if c := d.doctor(t)["room tool"]; c.Outcome != "FAIL" || !strings.Contains(c.Detail, "and sha256:") {
		t.Errorf("%+v", c)
	}
	r = sandboxctl(t, nil, "probe", "--config", d.config)
	if r.status != ExitFailed || !strings.Contains(r.stderr, "is pinned") {
		t.Errorf("a changed room: status %d, %q", r.status, r.stderr)
	}
}

func TestCrunOnAHybridHostIsRefusedByItsName(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err != nil {
		t.Skip("not run: this host's cgroups are not hybrid")
	}
	d := directly(t, "crun")
	for _, command := range []string{"probe", "worker"} {
		r := sandboxctl(t, nil, command, "--config", d.config)
		if r.status != ExitFailed || !strings.Contains(r.stderr, "hybrid") || !strings.Contains(r.stderr, "with which crun refuses to work") || !strings.Contains(r.stderr, "set program to runc or runsc") {
			t.Errorf("%s: status %d, %q", command, r.status, r.stderr)
		}
	}
	if c := d.doctor(t)["cgroups"]; c.Outcome != "FAIL" || !strings.Contains(c.Detail, "hybrid") {
		t.Errorf("doctor: %+v", c)
	}
}

func TestAScannersProfileIsRecordedFromAScanAndPastedHolds(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("not run: there is no strace here")
	}
	d := directly(t, "runc")
	artifact := put(t, "a.tgz", tgz(t, entry{"package/a.txt", "one finding\n"}))
	profile := filepath.Join(t.TempDir(), "tool.json")
	r := sandboxctl(t, nil, "record", "--config", d.config, "tool", artifact, "--output", profile)
	_, lines, found := strings.Cut(r.stdout, "[scanners.tool]\n")
	if r.status != 0 || r.stderr != "" || !found || !strings.Contains(r.stdout, "the scanner exited 0") {
		t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	config, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	d.config = put(t, "config.toml", append(config, lines...))
	if r := sandboxctl(t, nil, "scan", "--config", d.config, artifact); r.status != ExitFindings {
		t.Errorf("under its profile: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = sandboxctl(t, nil, "record", "--config", d.config, "tool", artifact, "--output", profile)
	if r.status != ExitUsage || !strings.Contains(r.stderr, "give --force to replace it") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
	if err := os.WriteFile(profile, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := sandboxctl(t, nil, "scan", "--config", d.config, artifact); r.status != ExitFailed || !strings.Contains(r.stderr, "pinned") {
		t.Errorf("another file: status %d, %q", r.status, r.stderr)
	}
}

func TestWhatCrunCantDoIsSaidBeforeAnythingIsStarted(t *testing.T) {
	config := put(t, "c.toml", []byte("[worker.sandbox]\nruntime = \"crun\"\n[worker.sandbox.crun]\nrooms = \"/nonexistent\"\n[scanners.trivy]\n"))
	plain := put(t, "c.toml", []byte("[worker.sandbox]\nruntime = \"crun\"\n"))
	offline := "network is true on scanner 'trivy' by its type, and sandboxes of runtime 'crun' never have a network"
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"a type with a network":         {"probe --config " + config, config + ":5: " + offline},
		"a type that is named alone":    {"probe --scanner trivy --config " + plain, offline},
		"a program elsewhere":           {"probe --runtime bwrap --program runc", `--program has no effect under runtime "bwrap"; it goes with --runtime crun`},
		"an engine here":                {"probe --engine docker --config " + plain, `--engine has no effect under runtime "crun"; it goes with --runtime oci`},
		"a profile elsewhere":           {"record --runtime none tool " + plain + " --output /nonexistent/x", "there is no scanner \"tool\""},
		"a recording of no artifact":    {"record tool --output x", "an artifact is missing"},
		"a recording to nowhere":        {"record tool x", "--output is missing"},
		"a room of nothing that stands": {"tree gitleaks --config " + plain, "nothing to build the room from"},
	} {
		r := sandboxctl(t, nil, strings.Fields(c.args)...)
		if r.status != ExitUsage || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: status %d, %q, want %q", name, r.status, r.stderr, c.want)
		}
	}
}

// The file of a worker's id goes with the worker wherever nothing is left, and
// so after runs without an answer too.
func TestAWorkersFileGoesAfterARunWithoutAnAnswer(t *testing.T) {
	d := directly(t, "runc")
	tmp := runDir(t)
	mistyped := put(t, "mistyped.toml", fmt.Appendf(nil,
		"[worker.sandbox]\nruntime = \"crun\"\n[worker.sandbox.crun]\nprogram = %q\nrooms = %q\nstate_dir = %q\n[scanners.tool]\ncommand = \"tool\"\nfindings = \"lines\"\n",
		d.program, d.rooms, filepath.Join(d.state, "no", "such", "state")))
	for name, c := range map[string]struct {
		args   []string
		status int
		said   string
	}{
		"out of time":              {[]string{"run", "--config", d.config, "--room", "tool", "--timeout", "1s", "--address-space-mb", "-1", "--", "tool", "deaf", "1h"}, ExitRunTimeout, "run timeout"},
		"no room":                  {[]string{"run", "--config", d.config, "--room", "other", "--", "tool", "echo", "x"}, ExitRunFailed, "probe failed"},
		"a failed probe":           {[]string{"probe", "--config", d.config, "--scanner", "gitleaks"}, ExitFailed, "probe failed"},
		"a mistyped state_dir":     {[]string{"probe", "--config", mistyped, "--scanner", "tool"}, ExitFailed, "state directory"},
		"a scan without an answer": {[]string{"scan", "--config", mistyped, put(t, "a.tgz", tgz(t, entry{"package/a.txt", "x\n"}))}, ExitFailed, "state directory"},
	} {
		r := sandboxctl(t, []string{"TMPDIR=" + tmp}, c.args...)
		if r.status != c.status || !strings.Contains(r.stderr, c.said) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", name, r.status, c.status, c.said, r.stderr)
		}
		if ids := workerIDs(t, tmp); len(ids) > 0 {
			t.Errorf("%s: %q stay", name, ids)
		}
		if left := d.left(t); left != "" {
			t.Errorf("%s: left behind: %s", name, left)
		}
	}
}
