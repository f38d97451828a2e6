package rmtree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

func gone(t *testing.T, path string) {
	t.Helper()
	if err := rmtree.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
}

func make1(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(path, 0o700) })
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestATreeOfDirectoriesNobodyMayEnterIsRemoved(t *testing.T) {
	top := filepath.Join(t.TempDir(), "run")
	make1(t, filepath.Join(top, "a/b/c"), 0)
	make1(t, filepath.Join(top, "a/b"), 0)
	make1(t, filepath.Join(top, "a"), 0o500)
	make1(t, filepath.Join(top, "d"), 0o400)
	gone(t, top)
}

func TestALinkIsRemovedAndNotFollowed(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	make1(t, outside, 0o755)
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(dir, "run")
	make1(t, top, 0o700)
	for name, target := range map[string]string{"dir": outside, "file": kept, "self": top, "up": ".."} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, top)
	if b, err := os.ReadFile(kept); err != nil || string(b) != "kept" {
		t.Errorf("outside: %q, %v", b, err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("outside: %v, %v", info, err)
	}
}

func TestALinkInThePlaceOfTheTreeIsRemovedItself(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	make1(t, outside, 0o755)
	top := filepath.Join(dir, "run")
	if err := os.Symlink(outside, top); err != nil {
		t.Fatal(err)
	}
	gone(t, top)
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoFileIsRemoved(t *testing.T) {
	top := filepath.Join(t.TempDir(), "run")
	make1(t, top, 0o700)
	if err := unix.Mkfifo(filepath.Join(top, "fifo"), 0); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// A long temporary directory does not fit a socket's address; its name in
	// the current directory does.
	t.Chdir(top)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	gone(t, top)
}

// A path of more than PATH_MAX bytes can be made, one directory at a time, and
// more levels of it than there are descriptors.
func TestATreeDeeperThanThereAreDescriptorsIsRemoved(t *testing.T) {
	top := filepath.Join(t.TempDir(), "run")
	make1(t, top, 0o700)
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 100)
	for range 3000 {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	gone(t, top)
}

func TestATreeWithTheNamesThatTheRemovalUsesIsRemoved(t *testing.T) {
	top := filepath.Join(t.TempDir(), "run")
	make1(t, filepath.Join(top, "moved-1/x"), 0o700)
	if err := os.WriteFile(filepath.Join(top, "moved-2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	make1(t, filepath.Join(top, strings.Repeat("d/", 100)), 0o700)
	gone(t, top)
}

func TestAWideTreeIsRemoved(t *testing.T) {
	top := filepath.Join(t.TempDir(), "run")
	make1(t, top, 0o700)
	for i := range 5000 {
		if err := os.WriteFile(filepath.Join(top, strings.Repeat("n", 1+i%200)+string(rune('a'+i%26))+filepath.Base(t.Name())+itoa(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, top)
}

func TestWhatDoesNotExistIsGone(t *testing.T) {
	gone(t, filepath.Join(t.TempDir(), "nothing"))
	gone(t, filepath.Join(t.TempDir(), "no/parent"))
}

func itoa(i int) string {
	return string([]byte{byte('0' + i/1000), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)})
}
