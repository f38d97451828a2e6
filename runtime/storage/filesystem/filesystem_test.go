package filesystem_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/filesystem"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

func open(t *testing.T, dir string) *filesystem.Backend {
	t.Helper()
	b, err := filesystem.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestItIsABackend(t *testing.T) {
	storagetest.Backend(t, func(t *testing.T) storage.Backend { return open(t, t.TempDir()) })
}

func TestNothingOutsideTheDirectoryIsReached(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret="), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link+")),
		os.Symlink(filepath.Join(outside, "secret="), filepath.Join(dir, "file=")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"link/secret", "file"} {
		if r, _, err := b.Get(t.Context(), key); err == nil {
			r.Close()
			t.Errorf("%s was read", key)
		}
		if _, err := b.Head(t.Context(), key); err == nil {
			t.Errorf("%s was looked at", key)
		}
	}
	if err := b.Put(t.Context(), "link/new", strings.NewReader("x"), 1); err == nil {
		t.Error("an object was put through a link")
	}
	if err := b.Put(t.Context(), "file", strings.NewReader("x"), 1); err != nil {
		t.Errorf("a link is not replaced: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(outside, "secret=")); err != nil || string(content) != "secret" {
		t.Errorf("what the link led to is %q, %v", content, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

func TestAFullDiskIsSaid(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("not run: no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := open(t, dir)
	err := b.Put(t.Context(), "large", strings.NewReader(strings.Repeat("x", 1<<20)), 1<<20)
	if !errors.Is(err, storage.ErrNoSpace) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("got %v", err)
	}
	if err := b.Put(t.Context(), "small", strings.NewReader("x"), 1); err != nil {
		t.Errorf("what was written of it is left: %v", err)
	}
}

func TestWhatAKilledProcessWasWritingIsRemovedAfterADay(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	old, young := filepath.Join(dir, ".part", "old"), filepath.Join(dir, ".part", "young")
	for _, part := range []string{old, young} {
		if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
	for o := range b.List(t.Context(), "") {
		t.Errorf("%s is listed", o.Key)
	}
}

func TestNothingIsLeftOfWhatWasDeletedOrFailed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	if err := b.Put(t.Context(), "a/b/c", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "a/b/d", strings.NewReader("x"), 2); err == nil {
		t.Error("a short reader was stored")
	}
	if err := b.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		left = append(left, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil || strings.Join(left, " ") != " /.part" {
		t.Errorf("there are %q, %v", left, err)
	}
}

func TestADirectoryThatIsNotThereIsRefused(t *testing.T) {
	if _, err := filesystem.New(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
