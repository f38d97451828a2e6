package crun

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Whatever a sandbox writes there, the host's disk does not fill.
func TestTheResultsPlaceIsASmallFileSystemOfTheRunsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to mount")
	}
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(testkit.Dir(t), "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.mountOut(work); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(work, &st); err != nil {
		t.Fatal(err)
	}
	const flags = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
	if size := int64(st.Blocks) * st.Bsize; st.Type != unix.TMPFS_MAGIC || st.Flags&flags != flags || size > 64<<20 || size < 2*wire.ResultTarCap || st.Files > 2000 {
		t.Errorf("it is %+v", st)
	}
	info, err := os.Stat(work)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 165532 || s.Gid != 165532 || info.Mode().Perm() != 0o700 {
		t.Errorf("it belongs to %d:%d, mode %v", s.Uid, s.Gid, info.Mode())
	}
	f, err := os.OpenFile(filepath.Join(work, "big"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 128<<20); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("filling it: %v", err)
	}
	f.Close()
	for range 2 {
		if err := unmount(work); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(work); err != nil || len(entries) > 0 {
		t.Errorf("%v are left, %v", entries, err)
	}
}

func TestAllThatAProgramKeepsForAContainerIsFound(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"sbx-1", "sbx-1_sandbox:sbx-1.lock", "sbx-1_sandbox:sbx-1.state", "runsc-sbx-1.sock", "sbx-10", "runsc-sbx-10.sock", "null-netns",
	} {
		put(t, filepath.Join(root, name), "")
	}
	var found []string
	for _, path := range stateOf(root, "sbx-1") {
		found = append(found, filepath.Base(path))
	}
	want := []string{"runsc-sbx-1.sock", "sbx-1", "sbx-1_sandbox:sbx-1.lock", "sbx-1_sandbox:sbx-1.state"}
	if !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}
