package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// stubbed is a runtime whose bwrap is a shell script. Nothing else of the host
// matters to it: proc stands for /proc.
func stubbed(t *testing.T, script string) (r *Runtime, proc string) {
	t.Helper()
	dir := testkit.Dir(t)
	binary := filepath.Join(dir, "bwrap-stub")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "rooms", "scanner"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Binary: binary, Rooms: filepath.Join(dir, "rooms"), RunDir: filepath.Join(dir, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	r.proc = filepath.Join(dir, "proc")
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		left, _ := os.ReadDir(filepath.Join(dir, "runs"))
		for _, e := range left {
			t.Errorf("%s is left", e.Name())
		}
	})
	return r, r.proc
}

func setSysctl(t *testing.T, proc, name, value string) {
	t.Helper()
	file := filepath.Join(proc, "sys", strings.ReplaceAll(name, ".", "/"))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func stubSpec() sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: []string{"scan"},
		StartTimeout: 5 * time.Second, Timeout: 5 * time.Second, Limits: wire.DefaultLimits(),
		Label: wire.Label{Worker: "w", Job: "j", Scanner: "scanner", Attempt: 1},
	}
}

// An engine that prints nothing and leaves nothing must never look like a
// scanner that found nothing.
func TestASilentEngineIsAFailureWithinSeconds(t *testing.T) {
	for _, status := range []int{0, 1} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			r, _ := stubbed(t, fmt.Sprintf("exit %d", status))
			began := time.Now()
			out, err := r.Run(t.Context(), stubSpec())
			if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeNoResult {
				t.Errorf("got %v, want crashed (no_result)", err)
			}
			if want := fmt.Sprintf("bwrap exited %d and no result came back", status); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if out.Status != nil || out.Stdout != nil {
				t.Errorf("there is an answer: %+v", out)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAnEngineThatHangsIsAStartTimeoutAndIsGone(t *testing.T) {
	r, _ := stubbed(t, `[ "$1" = --version ] && exit 0; echo waiting >&2; sleep 600`)
	spec := stubSpec()
	spec.StartTimeout = 200 * time.Millisecond
	_, err := r.Run(t.Context(), spec)
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Kind != sandbox.StartTimeout || e.Runtime != Name || e.Run != "j-scanner-1" || !strings.Contains(e.Stderr, "waiting") {
		t.Errorf("got %v, want a start timeout with bwrap's stderr", err)
	}
}

func TestAHostThatRefusesIsRecognisedByWhatBwrapSays(t *testing.T) {
	const apparmor, clone, most = "kernel.apparmor_restrict_unprivileged_userns", "kernel.unprivileged_userns_clone", "user.max_user_namespaces"
	for _, c := range []struct {
		name, says    string
		sysctl, value string
		hint          string
	}{
		{"AppArmor, plain bind", "bwrap: setting up uid map: Permission denied", apparmor, "1", apparmor + "=1 on this host"},
		{"AppArmor, all namespaces", "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", apparmor, "1", apparmor + "=1 on this host"},
		{"AppArmor without its profile", "bwrap: Creating new namespace failed: Permission denied", apparmor, "1", apparmor + "=1 on this host"},
		{"the clone switch", "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces.", clone, "0", clone + "=0 on this host"},
		{"the old words", "bwrap: No permissions to creating new namespace, likely because the kernel does not allow non-privileged user namespaces.", clone, "0", clone + "=0 on this host"},
		{"the namespace limit", "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)", most, "0", most + "=0 on this host"},
		{"no switch to blame", "bwrap: No permissions to create a new namespace", apparmor, "0", "seccomp or AppArmor profile"},
		{"a masked /proc", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", apparmor, "0", "/proc is partly masked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, proc := stubbed(t, "echo 'an earlier line' >&2; echo \""+c.says+"\" >&2; exit 1")
			setSysctl(t, proc, c.sysctl, c.value)
			_, err := r.Run(t.Context(), stubSpec())
			e, ok := errors.AsType[*sandbox.Error](err)
			if !ok || e.Kind != sandbox.Refused || e.Code != sandbox.CodeHostRefused {
				t.Fatalf("got %v, want refused (host_refused)", err)
			}
			if !strings.Contains(e.Hint, c.hint) || !strings.Contains(e.Hint, "docs/operations/scan-worker.md#runtimes") {
				t.Errorf("the hint is %q, want %q", e.Hint, c.hint)
			}
			if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q", err)
			}
		})
	}
}

func TestTheNarrowFixComesFirst(t *testing.T) {
	proc := t.TempDir()
	setSysctl(t, proc, "kernel.apparmor_restrict_unprivileged_userns", "1")
	d := Diagnose(proc, "")
	if len(d.Fixes) < 2 || !strings.Contains(d.Fixes[0], "AppArmor profile") || !strings.Contains(d.Fixes[1], "sysctl") {
		t.Errorf("the fixes are %q", d.Fixes)
	}
	if d := Diagnose(t.TempDir(), ""); d.Cause != "" {
		t.Errorf("a host without such switches is blamed: %q", d.Cause)
	}
}

// The three lines of a bwrap that can't start are these two and the worker's
// own between them.
func TestAProbeOfARefusingHostSaysItInTheRFCsWords(t *testing.T) {
	r, proc := stubbed(t, `echo "bwrap: setting up uid map: Permission denied" >&2; exit 1`)
	setSysctl(t, proc, "kernel.apparmor_restrict_unprivileged_userns", "1")
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if err != nil {
		t.Fatal(err)
	}
	const first = `probe failed for runtime "bwrap": the sandbox never started — bwrap exited 1 and no result came back: "bwrap: setting up uid map: Permission denied"`
	if got := report.Err(); got == nil || got.Error() != first {
		t.Errorf("got  %v\nwant %s", got, first)
	}
	const hint = "kernel.apparmor_restrict_unprivileged_userns=1 on this host; see docs/operations/scan-worker.md#runtimes"
	if report.Hint != hint {
		t.Errorf("the hint is %q, want %q", report.Hint, hint)
	}
	if len(report.Verdicts) != 1 || report.Verdicts[0].ID != wire.AssertResult {
		t.Errorf("the verdicts are %+v, want the failed result alone", report.Verdicts)
	}
}

func TestBwrapsOtherWordsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		says string
		code sandbox.Code
		hint string
	}{
		{"bwrap: Unknown option --disable-userns", sandbox.CodeEngineOld, "0.8.0 or later"},
		{"bwrap: execvp batlehub-sandbox: No such file or directory", sandbox.CodeNoAgent, "sandboxctl tree"},
		{"bwrap: execvp batlehub-sandbox: Permission denied", sandbox.CodeNoAgent, "sandboxctl tree"},
		{"bwrap: Can't find source path /opt/sandbox/x: No such file or directory", sandbox.CodeRoomMissing, "sandboxctl tree"},
		{"bwrap: Can't find source path /root/run/work: Permission denied", sandbox.CodeConfig, ""},
		{"bwrap: Can't mkdir /work: Read-only file system", sandbox.CodeConfig, "mount point"},
	} {
		r, _ := stubbed(t, "echo \""+c.says+"\" >&2; exit 1")
		_, err := r.Run(t.Context(), stubSpec())
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Kind != sandbox.Refused || e.Code != c.code || !strings.Contains(e.Hint, c.hint) || e.Hint == "" {
			t.Errorf("%q: got %v, want refused (%s) with a hint about %q", c.says, err, c.code, c.hint)
		}
	}
}

func TestAMissingBwrapIsARefusalThatSaysWhatToInstall(t *testing.T) {
	rooms := testkit.Dir(t)
	if err := os.Mkdir(filepath.Join(rooms, "scanner"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, binary := range []string{"no-such-bwrap", "/nonexistent/bwrap", rooms} {
		r, err := New(Config{Binary: binary, Rooms: rooms, RunDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Run(t.Context(), stubSpec())
		if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeNoEngine || !strings.Contains(err.Error(), "install bubblewrap") {
			t.Errorf("%s: got %v", binary, err)
		}
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
		if err != nil || report.Err() == nil || !strings.Contains(report.Err().Error(), binary) {
			t.Errorf("%s: the probe says %v, %v", binary, report.Err(), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestABwrapThatIsTooOldIsARefusalThatNamesTheVersions(t *testing.T) {
	r, _ := stubbed(t, `echo "bubblewrap 0.4.1"`)
	_, err := r.Run(t.Context(), stubSpec())
	if sandbox.CodeOf(err) != sandbox.CodeEngineOld || !strings.Contains(err.Error(), "bubblewrap 0.4.1") || !strings.Contains(err.Error(), "0.8.0 or later") {
		t.Errorf("got %v", err)
	}
}

func TestVersionsAreReadAndCompared(t *testing.T) {
	for s, want := range map[string]Version{
		"bubblewrap 0.8.0\n": {0, 8, 0}, "bubblewrap 0.12.1": {0, 12, 1}, "bubblewrap 1.0": {1, 0, 0},
	} {
		got, ok := ParseVersion(s)
		if !ok || got != want || got.Less(MinVersion) {
			t.Errorf("%q is %v, %t", s, got, ok)
		}
	}
	for _, s := range []string{"", "bwrap 0.8.0", "bubblewrap", "bubblewrap x.y", "bubblewrap 99999999999999999999.0"} {
		if v, ok := ParseVersion(s); ok {
			t.Errorf("%q is %v", s, v)
		}
	}
	for _, old := range []Version{{0, 7, 9}, {0, 4, 0}} {
		if !old.Less(MinVersion) {
			t.Errorf("%v is new enough", old)
		}
	}
}

func TestAMissingRoomIsARefusalAndNothingTakesItsPlace(t *testing.T) {
	marker := filepath.Join(testkit.Dir(t), "started")
	r, _ := stubbed(t, "touch "+marker)
	rooms := r.config.Rooms
	if err := os.WriteFile(filepath.Join(rooms, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(rooms, "root")); err != nil {
		t.Fatal(err)
	}
	for scanner, code := range map[string]sandbox.Code{
		"missing": sandbox.CodeRoomMissing, "file": sandbox.CodeRoomMissing, "root": sandbox.CodeConfig, "..": sandbox.CodeConfig, "": sandbox.CodeConfig,
	} {
		spec := stubSpec()
		spec.Label.Scanner = scanner
		_, err := r.Run(t.Context(), spec)
		if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != code {
			t.Errorf("%q: got %v, want refused (%s)", scanner, err, code)
		}
		if code == sandbox.CodeRoomMissing {
			path := filepath.Join(rooms, scanner)
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "sandboxctl tree "+scanner) {
				t.Errorf("%q: the error names neither %s nor what builds it: %v", scanner, path, err)
			}
			report, err := r.Probe(t.Context(), sandbox.Room{Scanner: scanner})
			if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertResult || !strings.Contains(v.Detail, path) {
				t.Errorf("%q: the probe says %+v, %v", scanner, v, err)
			}
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("bwrap was started all the same")
	}
}

func TestEveryAssertionHasAHint(t *testing.T) {
	for _, id := range wire.Assertions {
		if hint := Hint(id); hint == "" || strings.Contains(hint, "\n") {
			t.Errorf("%s: the hint is %q", id, hint)
		}
	}
	if len(hints) != len(wire.Assertions) {
		t.Errorf("%d hints for %d assertions", len(hints), len(wire.Assertions))
	}
}

func TestACanaryThatNoSandboxCouldRouteToIsRefused(t *testing.T) {
	c := Config{Canaries: nil}
	if _, err := New(c); err != nil {
		t.Error(err)
	}
	c.Canaries = append(c.Canaries, loopback)
	if _, err := New(c); sandbox.CodeOf(err) != sandbox.CodeConfig {
		t.Errorf("got %v", err)
	}
}

func TestAnEndedContextAndAClosedRuntimeStartNothing(t *testing.T) {
	marker := filepath.Join(testkit.Dir(t), "started")
	r, _ := stubbed(t, "touch "+marker)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, stubSpec()); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v, want cancelled", err)
	}
	if _, err := r.Probe(ctx, sandbox.Room{Scanner: "scanner"}); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v, want cancelled", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), stubSpec()); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v, want cancelled", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("bwrap was started all the same")
	}
}
