package bundle_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func apartRequest() bundle.Request {
	m := bundle.ProbeManifest(sandbox.Room{Scanner: "scanner"}, "w", nil)
	m.Entries = []wire.Entry{
		{Path: wire.MustRelPath("a"), Kind: wire.Archive, URL: wire.ArtifactURL},
		{Path: wire.MustRelPath("b"), Kind: wire.File, URL: wire.ArtifactURL},
	}
	return bundle.Request{
		Manifest: m, Artifact: bundle.BytesArtifact([]byte("bytes")), Inside: "/out", Apart: "/bundle", Deadline: time.Now(),
	}
}

func TestInputsCanBeKeptApartFromTheWorkDirectory(t *testing.T) {
	s := bundle.NewStore(bundle.Config{Runtime: "r", Parent: filepath.Join(t.TempDir(), "runs"), Unwatched: true})
	defer s.Close()
	d, err := s.Create(t.Context(), apartRequest())
	if err != nil {
		t.Fatal(err)
	}
	if d.In() != "file:///out/manifest.json" || d.Out() != "file:///out/out.tar" {
		t.Errorf("the agent's URLs are %s and %s", d.In(), d.Out())
	}
	for _, name := range []string{"artifact", "artifact-2"} {
		path := filepath.Join(d.Inputs(), name)
		b, err := os.ReadFile(path)
		if err != nil || string(b) != "bytes" {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(d.Work())
	if err != nil || len(entries) != 1 || entries[0].Name() != "manifest.json" {
		t.Errorf("the work directory holds %v, %v", entries, err)
	}
	b, err := os.ReadFile(filepath.Join(d.Work(), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseManifest(b)
	if err != nil || m.Entries[0].URL != "file:///bundle/artifact" || m.Entries[1].URL != "file:///bundle/artifact-2" {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(d.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is left: %v", err)
	}
}

func TestAStoresHooksAreToldOfEachDirectory(t *testing.T) {
	var prepared, released []string
	fault := errors.New("not yet")
	s := bundle.NewStore(bundle.Config{
		Runtime: "r", Parent: filepath.Join(t.TempDir(), "runs"), Unwatched: true,
		Prepare: func(work string) error { prepared = append(prepared, work); return nil },
		Release: func(dir string) error { released = append(released, dir); return fault },
	})
	defer s.Close()
	d, err := s.Create(t.Context(), apartRequest())
	if err != nil {
		t.Fatal(err)
	}
	if len(prepared) != 1 || prepared[0] != d.Work() {
		t.Errorf("prepared: %q", prepared)
	}
	if err := d.Close(); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(d.Path()); err != nil {
		t.Errorf("a directory that was not released is gone: %v", err)
	}
	// Its owner has let go of it, so it is a sweep's to try again.
	fault = nil
	report, err := s.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w"})
	if err != nil || len(report.Removed) != 1 || len(released) != 2 || released[1] != d.Path() {
		t.Errorf("got %+v, %v; released %q", report, err, released)
	}
	if _, err := os.Stat(d.Path()); err == nil {
		t.Error("it is left")
	}
}

func TestADirectoryThatCantBePreparedIsReleasedAndRemoved(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "runs")
	released := 0
	s := bundle.NewStore(bundle.Config{
		Runtime: "r", Parent: parent, Unwatched: true,
		Prepare: func(string) error { return os.ErrPermission },
		Release: func(string) error { released++; return nil },
	})
	defer s.Close()
	if _, err := s.Create(t.Context(), apartRequest()); err == nil {
		t.Fatal("there is a run directory")
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 || released != 1 {
		t.Errorf("%v are left, %v; released %d times", entries, err, released)
	}
}

func TestAPassableDirectoryLetsAnybodyThroughWhoKnowsItsName(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to give files away")
	}
	for passable, want := range map[bool]os.FileMode{true: 0o711, false: 0o710} {
		s := bundle.NewStore(bundle.Config{
			Runtime: "r", Parent: filepath.Join(t.TempDir(), "runs"), UID: 165532, GID: 165532, Passable: passable, Unwatched: true,
		})
		d, err := s.Create(t.Context(), apartRequest())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(d.Path()); err != nil || info.Mode().Perm() != want {
			t.Errorf("passable %t: the mode is %v, %v", passable, info.Mode(), err)
		}
		if err := errors.Join(d.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}
