package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/doctor"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

func TestTheWorkerProbesEveryRoomAndThenSaysThatThereIsNoQueue(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	config := put(t, "config.toml", []byte("[scanners.tool]\ncommand = \"tool\"\n"))
	r := sandboxctl(t, nil, "worker", "--config", config, "--rooms", rooms)
	want := `^INFO sandbox: probing runtime "bwrap" \(rooms in ` + regexp.QuoteMeta(rooms) + `\)
INFO sandbox: probe passed in \d+\.\ds — no network, read-only root, empty environment, uid 65532, seccomp filter, agent \S+
sandboxctl: this build has no job queue yet: nothing was leased; scan files with sandboxctl scan
$`
	if r.status != ExitFailed || r.stdout != "" || !regexp.MustCompile(want).MatchString(r.stderr) {
		t.Errorf("status %d, stdout %q, stderr\n%s", r.status, r.stdout, r.stderr)
	}
}

func TestTheWorkerWithoutWallsSaysThatItSkipsTheProbe(t *testing.T) {
	config := put(t, "config.toml", []byte("[worker.sandbox]\nruntime = \"none\"\n[scanners.tool]\ncommand = \"tool\"\n"))
	r := sandboxctl(t, []string{unsafeEnv}, "worker", "--config", config)
	if r.status != ExitFailed || !strings.Contains(r.stderr, "INFO sandbox: probe skipped for runtime \"none\": ") || strings.Contains(r.stderr, "probe passed") {
		t.Errorf("status %d, stderr\n%s", r.status, r.stderr)
	}
	for _, value := range []string{"BATLEHUB_UNSAFE_NO_SANDBOX=", "BATLEHUB_UNSAFE_NO_SANDBOX=true", "X=1"} {
		if r := sandboxctl(t, []string{value}, "worker", "--config", config); r.status != ExitUsage || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "refused (unsafe)") {
			t.Errorf("%s: status %d, stderr %q", value, r.status, r.stderr)
		}
	}
}

func TestTheProbeReportsEveryWallOfEveryRoom(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	config := put(t, "config.toml", []byte("[scanners.tool]\ncommand = \"tool\"\n"))
	r := sandboxctl(t, nil, "probe", "--config", config, "--rooms", rooms, "--format", "json")
	var got struct {
		Runtime string
		Rooms   []scan.Room
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.status != 0 || r.stderr != "" {
		t.Fatalf("status %d, %v, stdout %q, stderr %q", r.status, err, r.stdout, r.stderr)
	}
	if got.Runtime != "bwrap" || len(got.Rooms) != 1 || len(got.Rooms[0].Verdicts) != 14 || got.Rooms[0].UID != 65532 {
		t.Errorf("%+v", got)
	}
	out, err := exec.CommandContext(t.Context(), "sha256sum", filepath.Join(rooms, "tool/usr/local/bin/tool")).Output()
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Rooms[0].Commands; len(c) != 1 || !strings.HasPrefix(string(out), c[0].SHA256) {
		t.Errorf("commands %+v, sha256sum says %s", c, out)
	}
	table := sandboxctl(t, nil, "probe", "--config", config, "--rooms", rooms)
	if table.status != 0 || table.stderr != "" || !strings.Contains(table.stdout, "holds        no-network") {
		t.Errorf("status %d\n%s%s", table.status, table.stdout, table.stderr)
	}
}

// This host runs sandboxes, as the tests around this one show; a stub does not.
func TestTheDoctorSaysWhetherTheConfiguredRuntimeWorks(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	for name, c := range map[string]struct {
		bwrap, rooms string
		status       int
		want         []string
	}{
		"a host that works":  {"bwrap", rooms, 0, []string{"PASS     program", "a sandbox could be made", "PASS     room tool"}},
		"a missing room":     {"bwrap", "/nonexistent", ExitFailed, []string{"FAIL     room tool", "fix: sandboxctl tree tool --file"}},
		"no bwrap":           {"/nonexistent/bwrap", rooms, ExitFailed, []string{"FAIL     program", "fix: apt-get install bubblewrap"}},
		"a bwrap that fails": {stub(t, "[ \"$1\" = --version ] && echo 'bubblewrap 0.9.0' && exit 0\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"), rooms, ExitFailed, []string{"FAIL     user namespaces", "setting up uid map: Permission denied", "fix: "}},
		"an old bwrap":       {stub(t, "echo 'bubblewrap 0.4.1'\n"), rooms, ExitFailed, []string{"FAIL     program", "0.4.1", "install bubblewrap 0.8.0"}},
	} {
		config := put(t, "config.toml", fmt.Appendf(nil, "[worker.sandbox.bwrap]\nbinary = %q\nrooms = %q\n[scanners.tool]\ncommand = \"tool\"\n", c.bwrap, c.rooms))
		r := sandboxctl(t, nil, "doctor", "--config", config)
		if r.status != c.status || r.stderr != "" {
			t.Errorf("%s: status %d, stderr %q\n%s", name, r.status, r.stderr, r.stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: no %q in\n%s", name, want, r.stdout)
			}
		}
		var got struct{ Checks []doctor.Check }
		j := sandboxctl(t, nil, "doctor", "--config", config, "--format", "json")
		if err := json.Unmarshal([]byte(j.stdout), &got); err != nil || len(got.Checks) < 8 || j.status != c.status {
			t.Errorf("%s: %v, %d checks, status %d", name, err, len(got.Checks), j.status)
		}
	}
}

func TestATreeIsBuiltOnceAndSaysWhatItHolds(t *testing.T) {
	output := filepath.Join(t.TempDir(), "room")
	args := []string{"tree", "--output", output, "--file", "/usr/bin/tool=" + built(t, "tool"), "--command", "tool"}
	first := sandboxctl(t, nil, args...)
	if first.status != 0 || first.stderr != "" || !regexp.MustCompile(`^`+regexp.QuoteMeta(output)+`: 2 files, .* sha256:[0-9a-f]{64}\n$`).MatchString(first.stdout) {
		t.Errorf("status %d, %q %q", first.status, first.stdout, first.stderr)
	}
	if again := sandboxctl(t, nil, args...); again.status != ExitFailed || !strings.Contains(again.stderr, "give --force to replace it") {
		t.Errorf("status %d, %q", again.status, again.stderr)
	}
	if forced := sandboxctl(t, nil, append(args, "--force")...); forced.status != 0 || forced.stdout != first.stdout {
		t.Errorf("status %d, %q", forced.status, forced.stdout)
	}
	if missing := sandboxctl(t, nil, "tree", "--output", output+"2", "--file", built(t, "tool"), "--command", "other"); missing.status != ExitFailed || strings.Count(missing.stderr, "\n") != 1 {
		t.Errorf("status %d, %q", missing.status, missing.stderr)
	}
}
