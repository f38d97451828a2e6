package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/build"
)

const refusing = "ERROR sandbox: refusing to start — a worker without its sandbox scans nothing, it does not scan unsandboxed\n"

// stub writes a program that stands in for bwrap.
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	// Uid 65532 has to be able to start it.
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) //nolint:gosec // see above
	}
	return path
}

func stubConfig(t *testing.T, bwrap string) (file, dir string) {
	t.Helper()
	rooms := testRoom(t, "tool", built(t, "tool"))
	dir = runDir(t)
	file = put(t, "config.toml", fmt.Appendf(nil,
		"[worker.sandbox]\nrun_dir = %q\n[worker.sandbox.bwrap]\nbinary = %q\nrooms = %q\n[scanners.tool]\ncommand = \"tool\"\n", dir, bwrap, rooms))
	return file, dir
}

// The refusal is these three lines, for every command that would make a
// sandbox, within seconds.
func TestABwrapThatCantStartIsThreeLines(t *testing.T) {
	artifact := put(t, "a.tgz", tgz(t, entry{"a", "a"}))
	said := "bwrap: setting up uid map: Permission denied"
	config, dir := stubConfig(t, stub(t, "echo '"+said+"' >&2\nexit 1\n"))
	cause, _ := build.Host(build.Options{}).Bwrap.Diagnose("/proc", said)
	want := "ERROR sandbox: probe failed for runtime \"bwrap\": the sandbox never started — bwrap exited 1 and no result came back: " +
		"\"bwrap: setting up uid map: Permission denied\"\n" + refusing +
		"       (" + cause + "; see docs/operations/scan-worker.md#runtimes)\n"
	for command, status := range map[string]int{"worker": ExitFailed, "probe": ExitFailed, "scan " + artifact: ExitFailed, "run --room tool -- tool echo x": ExitRunFailed} {
		verb, rest, _ := strings.Cut(command, " ")
		r := sandboxctl(t, nil, append([]string{verb, "--config", config}, strings.Fields(rest)...)...)
		got := r.stderr
		if verb == "worker" {
			got = strings.TrimPrefix(got, "INFO sandbox: probing runtime \"bwrap\" (rooms in "+filepath.Join(shared, "rooms")+")\n")
		}
		if r.status != status || r.stdout != "" || got != want || r.took > 5*time.Second {
			t.Errorf("%s: status %d after %s, stdout %q\ngot\n%swant\n%s", verb, r.status, r.took, r.stdout, got, want)
		}
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// On a host with Ubuntu's restriction the third line names it. The switch is
// put over /proc/sys/kernel in a mount namespace of the test's own.
func TestTheThirdLineNamesTheRestrictionOfTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can show another /proc/sys/kernel to a process")
	}
	config, _ := stubConfig(t, stub(t, "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"))
	kernel := t.TempDir()
	if err := os.WriteFile(filepath.Join(kernel, "apparmor_restrict_unprivileged_userns"), []byte("1\n"), 0o644); err != nil { //nolint:gosec // a sysctl
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", `mount --bind "$1" /proc/sys/kernel && exec "$2" worker --config "$3"`,
		"sh", kernel, built(t, "sandboxctl"), config)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare:") || strings.Contains(string(out), "mount:") {
		t.Skip("not run: no mount namespace can be made here: ", string(out))
	}
	exit, is := errors.AsType[*exec.ExitError](err)
	lines := strings.SplitN(string(out), "\n", 2)
	want := "ERROR sandbox: probe failed for runtime \"bwrap\": the sandbox never started — bwrap exited 1 and no result came back: \"bwrap: setting up uid map: Permission denied\"\n" +
		refusing + "       (kernel.apparmor_restrict_unprivileged_userns=1 on this host; see docs/operations/scan-worker.md#runtimes)\n"
	if !is || exit.ExitCode() != ExitFailed || len(lines) != 2 || lines[1] != want {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out, want)
	}
}

func TestEveryWayNotToStartIsARefusalWithinSeconds(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"silent with status 1":   {"exit 1\n", "the sandbox never started — bwrap exited 1"},
		"silent with status 0":   {"exit 0\n", "the sandbox never started — "},
		"too old":                {"[ \"$1\" = --version ] && echo 'bubblewrap 0.4.1' && exit 0\nexit 1\n", "is bubblewrap 0.4.1"},
		"without an option":      {"echo 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n", "Unknown option --disable-userns"},
		"no namespaces left":     {"echo 'bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)' >&2\nexit 1\n", "nesting depth"},
		"killed":                 {"kill -9 $$\n", "the sandbox never started — "},
		"floods its stderr":      {"yes | head -c 10000000 >&2\necho last >&2\nexit 1\n", `"last"`},
		"prints control codes":   {"printf 'a\\033[2Jb' >&2\nexit 1\n", `\x1b[2J`},
		"lets its output dangle": {"echo gone >&2\n(sleep 3; echo late) &\nexit 1\n", `"gone"`},
	} {
		t.Run(name, func(t *testing.T) {
			config, dir := stubConfig(t, stub(t, c.script))
			r := sandboxctl(t, nil, "probe", "--config", config)
			if r.status != ExitFailed || r.stdout != "" || r.took > 5*time.Second {
				t.Errorf("status %d after %s, stdout %q", r.status, r.took, r.stdout)
			}
			if strings.Count(r.stderr, "\n") != 3 || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, refusing) || strings.Contains(r.stderr, "\x1b") {
				t.Errorf("want three lines with %q:\n%s", c.want, r.stderr)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
			await(5*time.Second, func() bool { return len(children(os.Getpid())) == 0 })
		})
	}
}

func TestAMissingBwrapIsARefusalThatSaysWhatToInstall(t *testing.T) {
	config, _ := stubConfig(t, "/nonexistent/bwrap")
	r := sandboxctl(t, nil, "worker", "--config", config)
	if r.status != ExitFailed || !strings.Contains(r.stderr, "ERROR sandbox: probe failed for runtime \"bwrap\": the sandbox never started — ") ||
		!strings.Contains(r.stderr, "(install bubblewrap 0.8 or later") || r.took > 5*time.Second {
		t.Errorf("status %d after %s: %s", r.status, r.took, r.stderr)
	}
}

func TestEveryAssertionsRefusalHasAHint(t *testing.T) {
	for _, id := range wire.Assertions {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		a := &app{stderr: f}
		got := a.refusal(&sandbox.ProbeError{Runtime: "bwrap", Verdict: wire.Verdict{ID: id, Outcome: wire.Fail, Detail: "seen"}})
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
		if statusOf(t.Context(), got) != ExitFailed || len(lines) != 3 || !strings.HasPrefix(lines[2], "       (") || len(lines[2]) < 20 {
			t.Errorf("%s: %q", id, lines)
		}
		if id != wire.AssertResult && !strings.Contains(lines[0], string(id)+" — seen") {
			t.Errorf("%s is not named: %s", id, lines[0])
		}
	}
}

func TestARoomThatIsMissingOrBrokenFailsTheProbeByName(t *testing.T) {
	rooms := testRoom(t, "tool", built(t, "tool"))
	copyOf := filepath.Join(runDir(t), "tool")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(rooms, "tool"), copyOf).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	config := put(t, "c.toml", []byte("[scanners.tool]\ncommand = \"tool\"\n[scanners.other]\ncommand = \"other\"\n"))
	probe := func(scanner string) result {
		return sandboxctl(t, nil, "probe", "--config", config, "--rooms", filepath.Dir(copyOf), "--scanner", scanner)
	}
	if r := probe("tool"); r.status != 0 {
		t.Fatalf("the whole room: status %d, %s", r.status, r.stderr)
	}
	if r := probe("other"); r.status != ExitFailed || !strings.Contains(r.stderr, "room") || !strings.Contains(r.stderr, "sandboxctl tree") {
		t.Errorf("no tree: status %d, %s", r.status, r.stderr)
	}
	if err := os.Remove(filepath.Join(copyOf, "usr/local/bin/tool")); err != nil {
		t.Fatal(err)
	}
	if r := probe("tool"); r.status != ExitFailed || !strings.Contains(r.stderr, "scanner-command — ") {
		t.Errorf("no command: status %d, %s", r.status, r.stderr)
	}
	if err := os.Remove(filepath.Join(copyOf, "usr/local/bin/batlehub-sandbox")); err != nil {
		t.Fatal(err)
	}
	if r := probe("tool"); r.status != ExitFailed || !strings.Contains(r.stderr, "batlehub-sandbox") || !strings.Contains(r.stderr, "sandboxctl tree") {
		t.Errorf("no agent: status %d, %s", r.status, r.stderr)
	}
}
