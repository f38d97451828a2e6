package bundle_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// leave makes what a dead worker would have left.
func leave(t *testing.T, parent, worker, random string, pastDeadline time.Duration) string {
	t.Helper()
	name := "batlehub-sbx~" + worker + "~job~scanner~1~" + random
	if err := os.MkdirAll(filepath.Join(parent, name, "work", "pkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{
		"worker": worker, "created": time.Now().Add(-pastDeadline - time.Minute), "deadline": time.Now().Add(-pastDeadline),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, name, "owner.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func names(r sandbox.SweepReport) []string {
	var list []string
	for _, o := range r.Removed {
		list = append(list, o.Name)
	}
	slices.Sort(list)
	return list
}

func TestASweepAsksWhoseItIsAndHowOldAndNothingElse(t *testing.T) {
	s := newStore(t)
	own := leave(t, s.Parent(), "me", "aaaa", -time.Hour)
	old := leave(t, s.Parent(), "other", "bbbb", 901*time.Second)
	young := leave(t, s.Parent(), "other", "cccc", 899*time.Second)
	report, err := s.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "me", OlderThan: 900 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(report); !slices.Equal(got, []string{own, old}) {
		t.Errorf("removed %v, want %v", got, []string{own, old})
	}
	for _, o := range report.Removed {
		if o.Kind != "directory" || o.Age == 0 && o.Name == old || o.Worker == "" {
			t.Errorf("the orphan is %+v", o)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Parent(), young)); err != nil {
		t.Error("a young directory of another worker was removed")
	}
	if err := os.RemoveAll(filepath.Join(s.Parent(), young)); err != nil {
		t.Fatal(err)
	}
	empty(t, s)
}

func TestASweepNeverTouchesALiveRun(t *testing.T) {
	s := newStore(t)
	r := request(specOf(), "/work")
	r.Deadline = time.Now().Add(-time.Hour)
	d := create(t, s, r)
	// Another store, as another process of the same worker would have.
	other := bundle.NewStore(bundle.Config{Runtime: "test", Parent: s.Parent()})
	defer other.Close()
	for _, sweeper := range []*bundle.Store{s, other} {
		report, err := sweeper.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "worker-1", OlderThan: time.Second})
		if err != nil || len(report.Removed) > 0 {
			t.Errorf("removed %v, %v", report.Removed, err)
		}
	}
	if _, err := os.Stat(d.Work()); err != nil {
		t.Error(err)
	}
}

func TestASweepLeavesWhatOnlyLooksLikeARunDirectory(t *testing.T) {
	s := newStore(t)
	outside := t.TempDir()
	link := filepath.Join(s.Parent(), "batlehub-sbx~me~job~scanner~1~link")
	file := filepath.Join(s.Parent(), "batlehub-sbx~me~job~scanner~1~file")
	being := filepath.Join(s.Parent(), "batlehub-sbx~me~job~scanner~1~being-made")
	alien := filepath.Join(s.Parent(), "something-else")
	for _, err := range []error{os.Symlink(outside, link), os.WriteFile(file, nil, 0o600), os.Mkdir(being, 0o700), os.Mkdir(alien, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "me", OlderThan: time.Second})
	if err != nil || len(report.Removed) > 0 {
		t.Errorf("removed %v, %v", report.Removed, err)
	}
	for _, p := range []string{link, file, being, alien, outside} {
		if _, err := os.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}

func TestADirectoryThatWasNeverFinishedIsSweptByItsAge(t *testing.T) {
	s := newStore(t)
	half := "batlehub-sbx~gone~job~scanner~1~half"
	p := filepath.Join(s.Parent(), half)
	if err := os.Mkdir(p, 0o700); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(p, long, long); err != nil {
		t.Fatal(err)
	}
	report, err := s.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "me", OlderThan: time.Minute})
	if err != nil || !slices.Equal(names(report), []string{half}) {
		t.Errorf("removed %v, %v", names(report), err)
	}
}

func TestASweepOfNothingIsNoError(t *testing.T) {
	s := bundle.NewStore(bundle.Config{Runtime: "test", Parent: filepath.Join(t.TempDir(), "missing")})
	defer s.Close()
	if report, err := s.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "me"}); err != nil || len(report.Removed) > 0 {
		t.Errorf("got %v, %v", report, err)
	}
}
