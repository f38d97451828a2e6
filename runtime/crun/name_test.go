package crun

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

func TestANameIsShortWhereRunscsSocketNeedsIt(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	const random = "abcdefghijklmnop"
	for scanner, short := range map[string]bool{"s": false, strings.Repeat("s", 63): true} {
		dir := "/x/batlehub-sbx~worker~job~" + scanner + "~1~" + random
		long := "batlehub-sbx-job-" + scanner + "-1-" + random
		for _, f := range []Flavour{Crun, Runc} {
			if name, ok := r.nameOf(f, dir); !ok || name != long {
				t.Errorf("%s: got %q", f, name)
			}
		}
		want := long
		if short {
			want = "batlehub-sbx-" + random
		}
		if name, ok := r.nameOf(Runsc, dir); !ok || name != want || len(r.socketOf(name)) > maxSocketPath {
			t.Errorf("got %q, want %q", name, want)
		}
		ended := []string{want, long}
		if !short {
			ended = ended[:1]
		}
		if names := r.namesOf(Runsc, dir); !slices.Equal(names, ended) {
			t.Errorf("it is ended as %q, want %q", names, ended)
		}
	}
}

// Where nothing fits below the state directory, runsc takes another place.
func TestASocketElsewhereIsFoundWhereItIsOne(t *testing.T) {
	elsewhere := testkit.Dir(t)
	before := otherSocketDirs
	otherSocketDirs = []string{elsewhere, filepath.Join(elsewhere, "none")}
	t.Cleanup(func() { otherSocketDirs = before })
	put(t, filepath.Join(elsewhere, socketName("a")), "")
	l, err := net.Listen("unix", filepath.Join(elsewhere, socketName("b")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if found := stateOf(t.TempDir(), "a"); found != nil {
		t.Errorf("found %q", found)
	}
	if found := stateOf(t.TempDir(), "b"); len(found) != 1 || found[0] != l.Addr().String() {
		t.Errorf("found %q", found)
	}
}
