package collect_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/collect"
)

func open(t *testing.T, path string) *collect.Place {
	t.Helper()
	p, err := collect.OpenPlace(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestAResultReplacesWhateverStandsInItsPlace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(path string) error{
		"nothing":      func(string) error { return nil },
		"file":         func(path string) error { return os.WriteFile(path, []byte("forged"), 0o400) },
		"symlink":      func(path string) error { return os.Symlink(outside, path) },
		"dangling":     func(path string) error { return os.Symlink("/no/such/target", path) },
		"hard link":    func(path string) error { return os.Link(outside, path) },
		"fifo":         func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory":    func(path string) error { return os.MkdirAll(path+"/a/b", 0o700) },
		"deep":         deep,
		"read-only":    func(path string) error { return errors.Join(os.MkdirAll(path+"/a", 0o700), os.Chmod(path, 0)) },
		"closed place": func(path string) error { return os.Chmod(filepath.Dir(path), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.tar")
			openUp(t, filepath.Dir(path))
			p := open(t, path)
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			if err := p.Write([]byte("result")); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); info.Mode() != 0o644 || string(b) != "result" || err != nil {
				t.Errorf("%s %q (%v)", info.Mode(), b, err)
			}
		})
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "untouched" {
		t.Errorf("what a link led to holds %q (%v)", b, err)
	}
}

// deep makes a directory deeper than a walk has descriptors for.
func deep(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	at, err := unix.Open(path, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	for range 3000 {
		if err := unix.Mkdirat(at, "d", 0o700); err != nil {
			return err
		}
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		unix.Close(at)
		if err != nil {
			return err
		}
		at = next
	}
	return unix.Close(at)
}

func TestTheDirectoryIsTheOneThatWasOpened(t *testing.T) {
	base := t.TempDir()
	dir, moved := filepath.Join(base, "dir"), filepath.Join(base, "moved")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := open(t, filepath.Join(dir, "out.tar"))
	if err := errors.Join(os.Rename(dir, moved), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := p.Write([]byte("result")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(moved, "out.tar")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.tar")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it went to the directory that took the name: %v", err)
	}
}

func TestWithoutSpaceNothingIsHalfWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("not run: no tmpfs can be mounted here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	p := open(t, filepath.Join(dir, "out.tar"))
	err := p.Write(make([]byte, 1<<20))
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("err %v, want ENOSPC", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	if err := p.Write([]byte("small")); err != nil {
		t.Error(err)
	}
}

func TestAPlaceWithoutADirectoryIsRefused(t *testing.T) {
	_, err := collect.OpenPlace(filepath.Join(t.TempDir(), "missing", "out.tar"))
	if !errors.Is(err, collect.ErrPlace) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("err %v", err)
	}
}

// openUp gives the directories back their rights before the test's end
// removes them.
func openUp(t *testing.T, root string) {
	t.Helper()
	t.Cleanup(func() {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}
