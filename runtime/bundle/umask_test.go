package bundle_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

// modes are those of everything in a run directory that is made under a umask.
func modes(t *testing.T, umask int, r bundle.Request) map[string]fs.FileMode {
	t.Helper()
	parent := t.TempDir()
	old := unix.Umask(umask)
	defer unix.Umask(old)
	s := bundle.NewStore(bundle.Config{Runtime: "r", Parent: filepath.Join(parent, "runs"), Unwatched: true, UID: 65532, GID: 65532, Passable: true})
	defer s.Close()
	d, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatalf("umask %04o: %v", umask, err)
	}
	defer d.Close()
	found := map[string]fs.FileMode{}
	err = filepath.WalkDir(d.Path(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(d.Path(), path)
		found[name] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestModesInARunDirectoryDoNotDependOnTheUmask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to give files to the run's uid")
	}
	for name, r := range map[string]func() bundle.Request{
		"apart": apartRequest,
		"together": func() bundle.Request {
			r := apartRequest()
			r.Apart, r.Inside = "", "/work"
			return r
		},
	} {
		want := modes(t, 0, r())
		if len(want) < 6 {
			t.Fatalf("%s: there is %v alone", name, want)
		}
		for _, umask := range []int{0o022, 0o077, 0o777} {
			if got := modes(t, umask, r()); !maps.Equal(got, want) {
				t.Errorf("%s, umask %04o: %v, want %v", name, umask, got, want)
			}
		}
	}
}
