package identity

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatIsNoWorkersFileOfThisPlaceIsLeftAlone(t *testing.T) {
	p := place(t)
	mine := take(t, p)
	tag, err := p.tag()
	if err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	name := func(tag, id string) string { return filepath.Join(p.Dir, tag+"."+id) }
	put := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	if err := errors.Join(
		os.Symlink(victim, name(tag, newID())),
		os.Symlink("/nonexistent", name(tag, newID())),
		os.Mkdir(name(tag, newID()), 0o700),
		unix.Mkfifo(name(tag, newID()), 0o600),
		put(name("otherhost", newID())),
		put(name(tag, "sandboxctl-short")),
		put(name(tag, "sandboxctl-ABCDEFGHIJKL")),
		put(name(tag, "sandboxctl-abcdefghijk/"[:22])),
		put(name(tag, "")),
		put(filepath.Join(p.Dir, "README")),
	); err != nil {
		t.Fatal(err)
	}
	before := files(t, p)
	w := take(t, p)
	if got := settled(t, w); len(got) != 1 || got[0] == mine.ID() {
		t.Errorf("swept for %q", got)
	}
	w.Close(false)
	if after := files(t, p); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
	// A file with something in it, or cut off, is a file.
	torn := newID()
	if err := os.WriteFile(name(tag, torn), []byte("\x00torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := take(t, p); w.ID() != torn {
		t.Errorf("%s, want %s", w.ID(), torn)
	}
}

// Each of these says nothing about whether a worker lives elsewhere.
func TestAnotherHostBootDirectoryOrReachHasIDsOfItsOwn(t *testing.T) {
	dir := unix.Statx_t{Ino: 1, Btime: unix.StatxTimestamp{Sec: 1, Nsec: 1}}
	other, younger := dir, dir
	other.Ino, younger.Btime.Nsec = 2, 2
	tags := []string{
		tagOf("boot", "host", dir, "reach"), tagOf("boot2", "host", dir, "reach"), tagOf("boot", "host2", dir, "reach"),
		tagOf("boot", "host", other, "reach"), tagOf("boot", "host", younger, "reach"), tagOf("boot", "host", dir, "reach2"),
	}
	if tags[0] != tagOf("boot", "host", dir, "reach") {
		t.Error("a tag changes by itself")
	}
	p := place(t)
	take(t, p).Close(false)
	seen := map[string]bool{}
	for _, tag := range tags {
		w, err := p.take(tag)
		if err != nil {
			t.Fatal(err)
		}
		killed(w)
		if seen[w.ID()] {
			t.Errorf("%s was taken by another", w.ID())
		}
		seen[w.ID()] = true
	}
}

func TestACopiedDirectoryGivesNoIDTwice(t *testing.T) {
	p := place(t)
	living := take(t, p)
	copied := Place{Dir: filepath.Join(t.TempDir(), "copy"), Reach: p.Reach}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", p.Dir, copied.Dir).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if w := take(t, copied); len(files(t, copied)) != 2 || w.ID() == living.ID() || !slices.Equal(settled(t, w), []string{w.ID()}) {
		t.Errorf("%s of a copy that has %s", w.ID(), living.ID())
	}
	// One that was moved is the same.
	killed(living)
	moved := Place{Dir: p.Dir + "2", Reach: p.Reach}
	if err := os.Rename(p.Dir, moved.Dir); err != nil {
		t.Fatal(err)
	}
	if w := take(t, moved); w.ID() != living.ID() {
		t.Errorf("%s, want %s", w.ID(), living.ID())
	}
}

// A file that is removed between its opening and its lock was given up.
func TestAFileThatIsGoneIsNoID(t *testing.T) {
	p := place(t)
	w := take(t, p)
	f, err := os.OpenFile(w.held[0].path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flock(f) == nil || !isWorkers(f) {
		t.Error("a living worker's file was locked")
	}
	w.Close(false)
	if err := flock(f); err != nil || isWorkers(f) {
		t.Errorf("a file that is gone: lock %v, and it counts as a worker's", err)
	}
}

func TestAPlaceThatIsNotThisUsersAloneIsRefused(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	if err := errors.Join(
		os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777), //nolint:gosec // what is refused
		os.Mkdir(at("real"), 0o700), os.Symlink("real", at("link")),
		os.WriteFile(at("file"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{"open": "its mode is 0777", "link": "it is no directory", "file": "it is no directory", "missing/workers": "no such file"}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(at("foreign"), 0o700), os.Chown(at("foreign"), 12345, -1)); err != nil {
			t.Fatal(err)
		}
		cases["foreign"] = "it belongs to uid 12345"
	}
	for name, want := range cases {
		if w, err := (Place{Dir: at(name)}).Take(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want %q", name, w, err, want)
		}
	}
}

// small mounts a file system at a new directory, and says with what options.
func small(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can mount a file system")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skip("not run: no file system can be mounted here: ", string(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

func TestAFileSystemThatTakesNothingIsAnError(t *testing.T) {
	full := small(t, "nr_inodes=2")
	p := Place{Dir: filepath.Join(full, "workers")}
	if w, err := p.Take(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("full: %v, %v", w, err)
	}
	readOnly := small(t, "mode=0755")
	kept := take(t, Place{Dir: filepath.Join(readOnly, "workers")})
	killed(kept)
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,ro", readOnly).CombinedOutput(); err != nil {
		t.Skip("not run: no file system can be mounted again here: ", string(out))
	}
	for _, name := range []string{"workers", "new"} {
		if w, err := (Place{Dir: filepath.Join(readOnly, name)}).Take(); err == nil || !strings.Contains(err.Error(), "read-only file system") {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}
