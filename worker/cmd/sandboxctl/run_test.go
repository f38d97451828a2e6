package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// tool is a run of the tool in its room.
func tool(t *testing.T, flags []string, argv ...string) result {
	t.Helper()
	args := append([]string{"run", "--rooms", testRoom(t, "tool", built(t, "tool")), "--room", "tool"}, flags...)
	return sandboxctl(t, nil, append(append(args, "--"), argv...)...)
}

func TestRunPassesOutputAndStatusOnAsTheyAre(t *testing.T) {
	var all bytes.Buffer
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	for _, c := range []struct {
		name           string
		flags, argv    []string
		status         int
		stdout, stderr string
	}{
		{"every byte", nil, []string{"tool", "bytes"}, 0, all.String(), ""},
		{"no shell", nil, []string{"tool", "echo", "$HOME", "a;b", "*", "`id`", "x y", ""}, 0, "$HOME\na;b\n*\n`id`\nx y\n", ""},
		{"its own status", nil, []string{"tool", "exit", "7"}, 7, "", "leaving\\u001b[31m\n"},
		{"a usage status of its own", nil, []string{"tool", "exit", "2"}, 2, "", "leaving\\u001b[31m\n"},
		{"its signal", nil, []string{"tool", "kill", "15"}, 143, "", "sandboxctl: the command was killed by SIGTERM\n"},
		{"out of time", []string{"--timeout", "500ms"}, []string{"tool", "sleep", "1h"}, ExitRunTimeout, "", "run timeout"},
		{"not in the room", nil, []string{"nowhere"}, ExitRunNotFound, "", "command_missing"},
		{"a forged result", nil, []string{"tool", "forge"}, 0, "forged", ""},
		{"a daemon", nil, []string{"tool", "daemon", "1h"}, 0, "left one behind", ""},
	} {
		dir := runDir(t)
		r := tool(t, append([]string{"--run-dir", dir}, c.flags...), c.argv...)
		if r.status != c.status || r.stdout != c.stdout || !strings.Contains(r.stderr, c.stderr) || c.stderr == "" && r.stderr != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.name, r.status, r.stdout, r.stderr)
		}
		if left := leftovers(t, dir); left != "" {
			t.Errorf("%s left behind: %s", c.name, left)
		}
	}
}

func TestRunLaysOutFilesAndArchives(t *testing.T) {
	small, large := put(t, "small", []byte("small")), put(t, "large", bytes.Repeat([]byte("l"), 1<<20))
	archive := put(t, "x", tgz(t, entry{"dir/inner", "inner"}))
	flags := []string{"--file", "etc/a=" + small, "--file", "b=" + large, "--archive", "tree=" + archive}
	for path, want := range map[string]string{"etc/a": "small", "/work/b": strings.Repeat("l", 1<<20), "tree/dir/inner": "inner"} {
		if r := tool(t, flags, "tool", "cat", path); r.status != 0 || r.stdout != want {
			t.Errorf("%s: status %d, %d bytes, %s", path, r.status, len(r.stdout), r.stderr)
		}
	}
	if r := tool(t, nil, "tool", "cat", small); r.status != 1 {
		t.Errorf("a file of the host was read: %d %q", r.status, r.stdout)
	}
}

func TestRunRefusesAnArchiveWithAStatusOfItsOwn(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	r := tool(t, []string{"--archive", "x=" + put(t, "x", tgz(t, entry{"../x", "x"})), "--report", report}, "tool", "echo", "no")
	if r.status != ExitRunRefused || r.stdout != "" || !strings.Contains(r.stderr, "sandboxctl: the artifact was refused: x, entry ../x: ") {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	b, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var got wire.Result
	if err := json.Unmarshal(b, &got); err != nil || got.Ending != wire.EndRefused || got.Refusal == nil {
		t.Errorf("%s, %v", b, err)
	}
}

func TestRunInputsThatCantBeReadAreThisSidesFailure(t *testing.T) {
	for _, flag := range []string{"--file", "--archive"} {
		r := tool(t, []string{flag, "x=/nonexistent"}, "tool", "echo")
		if r.status != ExitRunFailed || r.stderr != "sandboxctl: /nonexistent: no such file or directory\n" {
			t.Errorf("%s: status %d, %q", flag, r.status, r.stderr)
		}
	}
}

func TestAFullDiskUnderTheRunDirectoryIsSaidSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can mount a small file system")
	}
	dir := runDir(t)
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=4m,mode=0755", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skip("not run: no file system can be mounted here: ", string(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	large := put(t, "large", bytes.Repeat([]byte("l"), 8<<20))
	r := tool(t, []string{"--run-dir", dir, "--file", "a=" + large}, "tool", "echo", "no")
	if r.status != ExitRunFailed || r.stdout != "" || !strings.Contains(r.stderr, "no_space") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("large input: status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	bomb := put(t, "bomb", tgz(t, entry{"a", strings.Repeat("0123456789", 800<<10)}))
	if r := tool(t, []string{"--run-dir", dir, "--archive", "a=" + bomb}, "tool", "echo", "no"); r.status != ExitRunFailed || !strings.Contains(r.stderr, "no_space") {
		t.Errorf("large extraction: status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	if r := tool(t, []string{"--run-dir", dir}, "tool", "fill"); r.status == 0 && !strings.Contains(r.stderr, "no space left") {
		t.Errorf("a scanner that fills it: status %d, stderr %q", r.status, r.stderr)
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// What a scanner, an artifact or a command line has in it stays on its line, and
// acts on no terminal.
func TestNoErrorOfARunIsMoreThanItsLine(t *testing.T) {
	const hostile = "\x1b]0;x\x07\x1b[2J\r\nsandboxctl: forged\u202e"
	evil := put(t, "x", tgz(t, entry{"../" + hostile, "x"}))
	dir := filepath.Join(t.TempDir(), hostile)
	for name, c := range map[string]struct {
		flags, argv []string
		lines       int
		want        string
	}{
		"a command":                 {nil, []string{hostile}, 1, "command_missing"},
		"an entry's name":           {[]string{"--archive", "x=" + evil}, []string{"tool", "echo"}, 1, "the artifact was refused"},
		"a room":                    {[]string{"--room", hostile}, []string{"tool", "echo"}, 1, "--room: "},
		"a file":                    {[]string{"--file", "x=" + dir}, []string{"tool", "echo"}, 1, "no such file"},
		"a file's place":            {[]string{"--file", hostile + "=" + evil}, []string{"tool", "echo"}, 1, "control character"},
		"a run directory":           {[]string{"--run-dir", dir}, []string{"tool", "echo"}, 1, "does not exist"},
		"its standard error":        {nil, []string{"tool", "complain", hostile}, 2, "forged"},
		"a report beside a failure": {[]string{"--report", filepath.Join(dir, "r")}, []string{hostile}, 1, "no such file or directory; sandbox bwrap: run "},
	} {
		r := tool(t, c.flags, c.argv...)
		if r.status == 0 || strings.Count(r.stderr, "\n") != c.lines || !strings.Contains(r.stderr, c.want) ||
			strings.ContainsAny(r.stderr, "\x1b\x07\r\u202e") || strings.Contains(r.stderr, "\nsandboxctl: forged") && c.lines == 1 {
			t.Errorf("%s: status %d, %q, want %q", name, r.status, r.stderr, c.want)
		}
	}
	// Standard output is the command's own, on no terminal.
	if r := tool(t, nil, "tool", "echo", hostile); r.status != 0 || r.stdout != hostile {
		t.Errorf("status %d, %q", r.status, r.stdout)
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a place for rooms
		t.Fatal(err)
	}
	pin := sandboxctl(t, nil, "tree", "tool", "--rooms", dir, "--file", built(t, "tool"), "--command", "tool", "--pin")
	if pin.status != 0 || strings.Count(pin.stdout, "\n") != 2 || strings.ContainsAny(pin.stdout, "\x1b\x07\r\u202e") {
		t.Errorf("a pin: status %d, %q %q", pin.status, pin.stdout, pin.stderr)
	}
}
