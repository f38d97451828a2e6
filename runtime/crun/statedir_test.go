package crun

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// stateful is a runtime over a program that works and a state directory that a
// test has made, or not.
func stateful(t *testing.T, state string) *Runtime {
	t.Helper()
	rooms, room := bareRoom(t)
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(testkit.Dir(t), "runc")
	put(t, program, "#!/bin/sh\necho runc version 1.1.5\n")
	chmod(t, program, 0o755)
	r, err := New(Config{Program: program, Rooms: rooms, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listing is what a directory is and holds.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info fs.FileInfo, err error) error {
		if err == nil {
			b.WriteString(info.Mode().String() + " " + path + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestADirectoryThatIsNotTheRuntimesIsLeftAsItIs(t *testing.T) {
	for what, c := range map[string]struct {
		mode  fs.FileMode
		files []string
		says  string // nothing: it is taken
		hint  string
		then  fs.FileMode // of what is taken
	}{
		"a private one":                         {0o700, []string{"secret"}, `holds "secret"`, "not there yet", 0},
		"one for everybody to read":             {0o755, []string{"secret"}, `holds "secret"`, "not there yet", 0},
		"another program's state":               {0o755, []string{"runc/container/state.json"}, `holds "runc"`, "not there yet", 0},
		"an empty one":                          {0o755, nil, "", "", 0o755},
		"an empty one, private":                 {0o700, nil, "", "", 0o711},
		"a file system of its own":              {0o755, []string{"lost+found/x"}, "", "", 0o755},
		"its own":                               {0o711, []string{"runc/bundles/x/x", "runc/run/x"}, "", "", 0o711},
		"its own, with a note in it":            {0o711, []string{"runc/bundles/x/x", "runc/run/x", "note"}, "", "", 0o711},
		"its own, from a start that was killed": {0o700, []string{"runc/bundles/x/x"}, "", "", 0o711},
		"its own, for its owner alone":          {0o700, []string{"runc/bundles/x/x", "runc/run/x"}, "", "", 0o711},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(testkit.Dir(t), "state")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.files {
				put(t, filepath.Join(dir, name), "")
			}
			chmod(t, dir, c.mode)
			before := listing(t, dir)
			r := stateful(t, dir)
			seen := r.examineState().Fault
			if got := listing(t, dir); got != before {
				t.Errorf("looking made\n%sof\n%s", got, before)
			}
			if c.says == "" {
				if seen != nil {
					t.Fatal(seen)
				}
				if fault := r.makeState(Runc); fault != nil {
					t.Fatal(fault)
				}
				if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != c.then {
					t.Errorf("the mode is %v, %v, want %v", info.Mode(), err, c.then)
				}
				return
			}
			_, fault := r.ready(t.Context(), "scanner", true)
			if fault == nil || fault.Code != sandbox.CodeConfig || !strings.Contains(fault.Error(), c.says) || !strings.Contains(fault.Hint, c.hint) {
				t.Fatalf("got %v, want a refusal about %q", fault, c.says)
			}
			if seen == nil || seen.Error() != fault.Error() || seen.Hint != fault.Hint {
				t.Errorf("a doctor says %v, and a run %v", seen, fault)
			}
			if got := listing(t, dir); got != before {
				t.Errorf("a refused start made\n%sof\n%s", got, before)
			}
		})
	}
}

// What others have put there after the first look stays as it is.
func TestAForeignDirectoryIsNotOpened(t *testing.T) {
	dir := filepath.Join(testkit.Dir(t), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "secret"), "")
	before := listing(t, dir)
	if fault := stateful(t, dir).makeState(Runc); fault == nil || !strings.Contains(fault.Error(), `holds "secret"`) {
		t.Errorf("got %v", fault)
	}
	if got := listing(t, dir); got != before {
		t.Errorf("it is\n%sof\n%s", got, before)
	}
}

func TestWhatIsAboveTheStateDirectoryIsNotOpened(t *testing.T) {
	above := filepath.Join(testkit.Dir(t), "above")
	if err := os.Mkdir(above, 0o700); err != nil {
		t.Fatal(err)
	}
	r := stateful(t, filepath.Join(above, "state"))
	_, fault := r.ready(t.Context(), "scanner", true)
	if fault == nil || !strings.Contains(fault.Error(), "(chmod o+x "+above+")") || !strings.Contains(fault.Hint, "let the root of a sandbox through") {
		t.Errorf("got %v", fault)
	}
	if info, err := os.Stat(above); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestNothingIsMadeForAProgramThatDoesNotWork(t *testing.T) {
	dir := filepath.Join(testkit.Dir(t), "state")
	r := stateful(t, dir)
	put(t, r.config.Program, "#!/bin/sh\nexit 3\n")
	if _, fault := r.ready(t.Context(), "scanner", true); fault == nil || !strings.Contains(fault.Error(), "exited 3") {
		t.Errorf("got %v", fault)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state directory: %v", err)
	}
}

func TestAStateDirectoryThatCantBeMadeIsOneRefusal(t *testing.T) {
	parent := testkit.Dir(t)
	file := filepath.Join(parent, "file")
	put(t, file, "")
	open := filepath.Join(parent, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	chmod(t, open, 0o777)
	for what, c := range map[string]struct{ state, says, hint string }{
		"a file":                  {file, file + " is not a directory", otherState},
		"below a file":            {file + "/state", file + "/state: not a directory", otherState},
		"below nothing":           {parent + "/none/state", "no such file", "install -d -m 0755 " + parent + "/none; or"},
		"where others put things": {open + "/state", open + " is writable for others", otherState},
	} {
		r := stateful(t, c.state)
		_, fault := r.ready(t.Context(), "scanner", true)
		if fault == nil || !strings.Contains(fault.Error(), c.says) || !strings.Contains(fault.Hint, c.hint) {
			t.Errorf("%s: got %v (%s), want a refusal about %q", what, fault, fault.Hint, c.says)
		}
		if seen := r.examineState().Fault; seen == nil || seen.Error() != fault.Error() {
			t.Errorf("%s: a doctor says %v, and a run %v", what, seen, fault)
		}
		if swept, err := r.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w", OlderThan: time.Hour}); err != nil || len(swept.Removed) > 0 {
			t.Errorf("%s: sweeping says %v, %v", what, swept, err)
		}
	}
}

func TestTheStateDirectoryIsTheWorkersOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to give files away")
	}
	parent := testkit.Dir(t)
	for what, plant := range map[string]func(path string) error{
		"somebody else's": func(path string) error { return errors.Join(os.Mkdir(path, 0o755), os.Chown(path, 65534, 65534)) },
		"everybody's":     func(path string) error { return errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o777)) },
		"a link":          func(path string) error { return os.Symlink(parent, path) },
		"a file":          func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		path := filepath.Join(parent, strings.ReplaceAll(what, " ", "-"))
		if err := plant(path); err != nil {
			t.Fatal(err)
		}
		if err := ownDir(path, 0o711); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	path := filepath.Join(parent, "new")
	for _, mode := range []os.FileMode{0o711, 0o700} {
		if err := ownDir(path, 0o711); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("the mode is %v, %v, want that of what was there", info.Mode(), err)
		}
		chmod(t, path, 0o700)
	}
	if err := ownDir(filepath.Join(parent, "a/b"), 0o711); err == nil {
		t.Error("what is above it was made too")
	}
	chmod(t, path, 0o700)
	if err := passable(filepath.Join(path, "..")); err != nil {
		t.Error(err)
	}
	if err := passable(path); err == nil || !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("got %v", err)
	}
}
