package room_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

func TestMain(m *testing.M) {
	status := m.Run()
	testkit.Clean()
	os.Exit(status)
}

// agent is a static program that stands for the agent.
func agent(t *testing.T) string {
	t.Helper()
	return testkit.Build(t, "./testdata/program")
}

func onlyEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s holds %v, %v", dir, entries, err)
	}
}

func build(t *testing.T, o room.Options) (string, room.Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rooms", "scanner")
	report, err := room.Build(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return dir, report
}

func write(t *testing.T, name, content string, mode fs.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestABuiltRoomHasWhatARoomNeedsAndNothingElse(t *testing.T) {
	dir, report := build(t, room.Options{Agent: agent(t)})
	var names []string
	_ = filepath.WalkDir(dir, func(p string, _ fs.DirEntry, _ error) error {
		names = append(names, strings.TrimPrefix(p, dir))
		return nil
	})
	want := []string{"", "/bundle", "/dev", "/out", "/proc", "/tmp", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/usr/local/bin/batlehub-sandbox", "/work"}
	if !slices.Equal(names, want) {
		t.Errorf("the room holds %q, want %q", names, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "work")); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&fs.ModeSticky == 0 {
		t.Errorf("/work has the mode %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "tmp")); err != nil || target != "work/tmp" {
		t.Errorf("/tmp leads to %q, %v", target, err)
	}
	if report.Dir != dir || report.Files != 1 || report.Bytes == 0 || !strings.HasPrefix(report.Digest, "sha256:") {
		t.Errorf("the report is %+v", report)
	}
	if problems, err := room.Check(dir); err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}

func TestModesAreReducedToWhatARoomNeeds(t *testing.T) {
	src := t.TempDir()
	write(t, filepath.Join(src, "private/secretive"), "x", 0o600)
	write(t, filepath.Join(src, "private/program"), "x", 0o700|fs.ModeSetuid|fs.ModeSetgid)
	dir, _ := build(t, room.Options{Agent: agent(t), From: []room.Source{{Path: src, To: "/opt"}}})
	for name, want := range map[string]fs.FileMode{"opt/private/secretive": 0o644, "opt/private/program": 0o755, "opt/private": fs.ModeDir | 0o755, "opt": fs.ModeDir | 0o755} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

func TestSourcesGoWhereTheyAreSaidToAndLaterOnesWin(t *testing.T) {
	src := t.TempDir()
	tool := write(t, filepath.Join(src, "tool"), "first", 0o755)
	other := write(t, filepath.Join(src, "other"), "second", 0o644)
	tree := filepath.Join(src, "tree")
	write(t, filepath.Join(tree, "a/b"), "deep", 0o644)
	if err := os.Symlink("/usr/local/bin/tool", filepath.Join(tree, "a/link")); err != nil {
		t.Fatal(err)
	}
	dir, _ := build(t, room.Options{Agent: agent(t), Commands: []string{"tool", "/opt/a/link"}, From: []room.Source{
		{Path: tool}, {Path: tree, To: "/opt"}, {Path: other, To: "/opt/a/b"}, {Path: other, To: "/../../etc/data"},
	}})
	for name, want := range map[string]string{"usr/local/bin/tool": "first", "opt/a/b": "second", "etc/data": "second"} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestARoomIsMadeAtOnceOrNotAtAll(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "scanner")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	src := t.TempDir()
	tool := write(t, filepath.Join(src, "tool"), "x", 0o755)
	for name, c := range map[string]struct {
		ctx context.Context
		o   room.Options
	}{
		"no agent":          {t.Context(), room.Options{}},
		"a missing source":  {t.Context(), room.Options{Agent: agent(t), From: []room.Source{{Path: "/nonexistent/file"}}}},
		"a missing command": {t.Context(), room.Options{Agent: agent(t), From: []room.Source{{Path: tool}}, Commands: []string{"other"}}},
		"neither":           {t.Context(), room.Options{Agent: agent(t), From: []room.Source{{}}}},
		"both":              {t.Context(), room.Options{Agent: agent(t), From: []room.Source{{Path: tool, Image: tool}}}},
		"an ended context":  {cancelled, room.Options{Agent: agent(t), From: []room.Source{{Path: src}}}},
	} {
		if _, err := room.Build(c.ctx, dir, c.o); err == nil {
			t.Errorf("%s: a room was made", name)
		}
		onlyEmpty(t, parent)
	}
}

func TestAnExistingRoomIsReplacedOnlyWhenToldSo(t *testing.T) {
	src := t.TempDir()
	old := write(t, filepath.Join(src, "old"), "x", 0o755)
	dir, first := build(t, room.Options{Agent: agent(t), From: []room.Source{{Path: old}}})
	if _, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t)}); !errors.Is(err, room.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if got, err := room.Digest(t.Context(), dir); err != nil || got != first.Digest {
		t.Errorf("the room changed: %v, %v", got, err)
	}
	if _, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), Replace: true, Commands: []string{"missing"}}); err == nil {
		t.Error("a broken room was made")
	}
	if content(t, dir, "usr/local/bin/old") != "x" {
		t.Error("a broken room replaced a whole one")
	}
	if _, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), Replace: true}); err != nil {
		t.Fatal(err)
	}
	if content(t, dir, "usr/local/bin/old") != "missing" {
		t.Error("the old room is still there")
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it are %v, %v", entries, err)
	}
}

func TestTheDigestIsOfTheContentAndNotOfTimes(t *testing.T) {
	src := t.TempDir()
	tool := write(t, filepath.Join(src, "tool"), "x", 0o755)
	first, one := build(t, room.Options{Agent: agent(t), From: []room.Source{{Path: tool}}})
	_, two := build(t, room.Options{Agent: agent(t), From: []room.Source{{Path: tool}}})
	if one.Digest != two.Digest {
		t.Errorf("two rooms of the same sources are %s and %s", one.Digest, two.Digest)
	}
	for name, change := range map[string]func() error{
		"content":    func() error { return os.WriteFile(filepath.Join(first, "usr/local/bin/tool"), []byte("y"), 0o600) },
		"a mode":     func() error { return os.Chmod(filepath.Join(first, "usr/local/bin/tool"), 0o644) },
		"a new name": func() error { return os.Mkdir(filepath.Join(first, "new"), 0o755) },
		"a link":     func() error { return os.Symlink("x", filepath.Join(first, "link")) },
	} {
		before, err := room.Digest(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if after, err := room.Digest(t.Context(), first); err != nil || after == before {
			t.Errorf("%s does not change the digest, %v", name, err)
		}
	}
}

func TestCheckNamesWhatKeepsATreeFromBeingARoom(t *testing.T) {
	tool := write(t, filepath.Join(t.TempDir(), "tool"), "#!/usr/bin/python3 -s\n", 0o755)
	fresh := func() string {
		dir, _ := build(t, room.Options{Agent: agent(t)})
		return dir
	}
	for name, c := range map[string]struct {
		break1  func(dir string) error
		rule    string
		path    string
		command string
	}{
		"no /work":                          {func(d string) error { return os.Remove(d + "/work") }, room.RuleMountPoint, "/work", ""},
		"no /proc":                          {func(d string) error { return os.Remove(d + "/proc") }, room.RuleMountPoint, "/proc", ""},
		"/dev a link":                       {func(d string) error { return errors.Join(os.Remove(d+"/dev"), os.Symlink("proc", d+"/dev")) }, room.RuleMountPoint, "/dev", ""},
		"no /usr/bin":                       {func(d string) error { return os.Remove(d + "/usr/bin") }, room.RuleMountPoint, "/usr/bin", ""},
		"a /tmp":                            {func(d string) error { return errors.Join(os.Remove(d+"/tmp"), os.Mkdir(d+"/tmp", 0o755)) }, room.RuleTmp, "/tmp", ""},
		"no agent":                          {func(d string) error { return os.Remove(d + "/usr/local/bin/batlehub-sandbox") }, room.RuleAgent, "/usr/local/bin/batlehub-sandbox", ""},
		"an agent that may not be executed": {func(d string) error { return os.Chmod(d+"/usr/local/bin/batlehub-sandbox", 0o644) }, room.RuleAgent, "/usr/local/bin/batlehub-sandbox", ""},
		"an agent that is text":             {func(d string) error { return copyTo(tool, d+"/usr/local/bin/batlehub-sandbox") }, room.RuleAgent, "/usr/local/bin/batlehub-sandbox", ""},
		"an agent that is dynamic":          {func(d string) error { return copyTo("/bin/cat", d+"/usr/local/bin/batlehub-sandbox") }, room.RuleAgent, "/usr/local/bin/batlehub-sandbox", ""},
		"no command":                        {nil, room.RuleCommand, "scan", "scan"},
		"no absolute command":               {nil, room.RuleCommand, "/opt/scan", "/opt/scan"},
		"a script without its interpreter":  {func(d string) error { return copyTo(tool, d+"/usr/bin/scan") }, room.RuleCommand, "/usr/bin/scan", "scan"},
		"a program without its loader":      {func(d string) error { return copyTo("/bin/cat", d+"/usr/bin/scan") }, room.RuleCommand, "/usr/bin/scan", "scan"},
		"a shell":                           {func(d string) error { return copyTo(tool, d+"/usr/bin/bash") }, room.RuleShell, "/usr/bin/bash", ""},
		"a shell by a link": {func(d string) error {
			return errors.Join(copyTo(tool, d+"/opt-dash"), os.Symlink("/opt-dash", d+"/usr/bin/sh"))
		}, room.RuleShell, "/usr/bin/sh", ""},
		"the worker's program": {func(d string) error { return copyTo(tool, d+"/usr/local/bin/sandboxctl") }, room.RuleShell, "/usr/local/bin/sandboxctl", ""},
		"a set-id program": {func(d string) error {
			return errors.Join(copyTo(tool, d+"/usr/bin/su"), os.Chmod(d+"/usr/bin/su", 0o755|fs.ModeSetuid))
		}, room.RuleSetID, "/usr/bin/su", ""},
		"a FIFO": {func(d string) error { return unix.Mkfifo(d+"/usr/fifo", 0o600) }, room.RuleDevice, "/usr/fifo", ""},
	} {
		dir := fresh()
		if c.break1 != nil {
			if err := c.break1(dir); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		var commands []string
		if c.command != "" {
			commands = append(commands, c.command)
		}
		problems, err := room.Check(dir, commands...)
		if err != nil || len(problems) != 1 || problems[0].Rule != c.rule || problems[0].Path != c.path {
			t.Errorf("%s: got %v, %v, want one about %s at %s", name, problems, err, c.rule, c.path)
			continue
		}
		if problems[0].Detail == "" || problems[0].Fix == "" {
			t.Errorf("%s: %+v says too little", name, problems[0])
		}
	}
}

func copyTo(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	_ = os.Remove(to)
	return errors.Join(os.WriteFile(to, b, 0o600), os.Chmod(to, 0o755))
}

func TestAShellIsAWarningWhereItIsAllowed(t *testing.T) {
	src := t.TempDir()
	sh := write(t, filepath.Join(src, "sh"), "x", 0o755)
	o := room.Options{Agent: agent(t), From: []room.Source{{Path: sh}}}
	_, err := room.Build(t.Context(), filepath.Join(t.TempDir(), "room"), o)
	if problems, ok := errors.AsType[*room.ProblemsError](err); !ok || problems.Problems[0].Rule != room.RuleShell {
		t.Errorf("got %v, want a refused shell", err)
	}
	o.AllowShell = true
	if _, report := build(t, o); len(report.Warnings) != 1 || report.Warnings[0].Rule != room.RuleShell {
		t.Errorf("the warnings are %v", report.Warnings)
	}
}

// A program of this host runs in a room that has nothing but what Build took
// for it.
func TestAProgramRunsWithTheLibrariesThatWereTakenForIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: chroot needs root")
	}
	program, err := exec.LookPath("ls")
	if err != nil {
		t.Skip("not run: there is no ls here")
	}
	dir, _ := build(t, room.Options{Agent: agent(t), Libraries: true, Commands: []string{"ls"}, From: []room.Source{{Path: program, To: "/usr/bin/ls"}}})
	cmd := exec.CommandContext(t.Context(), "/usr/bin/ls", "-d", "/work")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	cmd.Dir, cmd.Env = "/", []string{}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "/work\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestALibraryThatIsNowhereIsNamed(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("not run: no compiler makes a program with a library of its own here")
	}
	dir := t.TempDir()
	source := write(t, filepath.Join(dir, "lib.c"), "int f(void){return 0;}", 0o600)
	main := write(t, filepath.Join(dir, "main.c"), "int f(void);int main(void){return f();}", 0o600)
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/libnowhere.so", source}, {"-o", dir + "/scan", main, "-L" + dir, "-lnowhere"},
	} {
		if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
			t.Skipf("not run: the compiler fails: %s", out)
		}
	}
	o := room.Options{Agent: agent(t), Libraries: true, From: []room.Source{{Path: dir + "/scan"}}}
	if _, err := room.Build(t.Context(), filepath.Join(t.TempDir(), "room"), o); err == nil || !strings.Contains(err.Error(), "libnowhere.so") {
		t.Errorf("got %v, want an error that names the library", err)
	}
	o.From = append(o.From, room.Source{Path: dir + "/libnowhere.so", To: "/usr/lib/libnowhere.so"})
	if _, err := room.Build(t.Context(), filepath.Join(t.TempDir(), "room"), o); err != nil {
		t.Errorf("with the library as a source: %v", err)
	}
}
