package room_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// Whoever says --force means the old room, and not whatever the path happens
// to lead to.
func TestWhatIsNoRoomIsNeverReplaced(t *testing.T) {
	static := agent(t)
	for name, make := range map[string]func(dir string) error{
		"files": func(dir string) error {
			write(t, filepath.Join(dir, "thesis.txt"), "years of work", 0o644)
			return nil
		},
		"a file":       func(dir string) error { write(t, dir, "x", 0o644); return nil },
		"a link":       func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a dead link":  func(dir string) error { return os.Symlink("nowhere", dir) },
		"a hidden one": func(dir string) error { write(t, filepath.Join(dir, ".git/config"), "x", 0o644); return nil },
		"a root file system with the agent": func(dir string) error {
			write(t, filepath.Join(dir, "proc/version"), "x", 0o644)
			write(t, filepath.Join(dir, "work/mine"), "x", 0o644)
			if err := os.CopyFS(filepath.Join(dir, "usr/local/bin"), os.DirFS(filepath.Dir(static))); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(dir, "usr/local/bin", filepath.Base(static)), filepath.Join(dir, room.AgentPath)); err != nil {
				return err
			}
			return errors.Join(os.Mkdir(filepath.Join(dir, "dev"), 0o755), os.Symlink("work/tmp", filepath.Join(dir, "tmp"))) //nolint:gosec // as in a room
		},
		"the rooms of others": func(dir string) error {
			_, err := room.Build(t.Context(), filepath.Join(dir, "scanner"), room.Options{Agent: static})
			return err
		},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "pre")
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		before := listing(t, dir)
		for _, replace := range []bool{false, true} {
			_, err := room.Build(t.Context(), dir, room.Options{Agent: static, Replace: replace})
			if !errors.Is(err, room.ErrNotRoom) || errors.Is(err, room.ErrExists) {
				t.Errorf("%s, replace %v: got %v, want ErrNotRoom", name, replace, err)
			}
		}
		if after := listing(t, dir); after != before {
			t.Errorf("%s: it held\n%s and holds\n%s", name, before, after)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("%s: left beside it: %v, %v", name, entries, err)
		}
	}
}

// An empty directory is what mktemp and an unpacked package leave.
func TestAnEmptyDirectoryBecomesARoom(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := t.TempDir()
		if _, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), Replace: replace}); err != nil {
			t.Error(err)
		}
		if problems, err := room.Check(dir); err != nil || len(problems) > 0 {
			t.Errorf("replace %v: %v, %v", replace, problems, err)
		}
	}
}

// A room can be replaced whatever its sources held where things are mounted.
func TestARoomIsKnownAgainWhateverItWasMadeFrom(t *testing.T) {
	src := t.TempDir()
	for _, name := range []string{"dev/console", "proc/x", "work/y", "tmp/z", "etc/kept"} {
		write(t, filepath.Join(src, name), "x", 0o644)
	}
	dir, report := build(t, room.Options{Agent: agent(t), From: []room.Source{{Path: src}}})
	if len(report.Skipped) != 4 {
		t.Errorf("left out %q, want one entry for each of /tmp, /work, /proc and /dev", report.Skipped)
	}
	if content(t, dir, "etc/kept") != "x" {
		t.Error("/etc/kept was lost")
	}
	if _, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), Replace: true}); err != nil {
		t.Error(err)
	}
}

// listing is everything below dir, by name and kind.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil {
			all += p + " " + d.Type().String() + "\n"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
