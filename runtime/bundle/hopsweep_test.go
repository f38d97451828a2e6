package bundle_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/router"
)

// orphaned stores a key of a dead worker, as old as that.
func orphaned(t *testing.T, b *bucket, key, content string, age time.Duration) string {
	t.Helper()
	store(t, b, key, []byte(content))
	b.ages[key] = age
	return key
}

// ninety is a manifest that says that a run may take 90 seconds.
const ninety = `{"wire":9,"fetch_ms":30000,"timeout_ms":60000,"later":true}`

func sweep(t *testing.T, h *bundle.Hop, policy sandbox.SweepPolicy) []string {
	t.Helper()
	report, err := h.Sweep(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Removed {
		if o.Kind != "bundle" || o.Worker == "" {
			t.Errorf("the orphan is %+v", o)
		}
	}
	return names(report)
}

func TestASweepOfBundlesAsksWhoseItIsAndHowOldAndNothingElse(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	orphaned(t, b, "sandbox/me/j/s/1/manifest.json", ninety, 0)
	orphaned(t, b, "sandbox/me/j/s/1/out.tar", "x", 0)
	orphaned(t, b, "sandbox/me/j/artifact", "x", 0)
	orphaned(t, b, "sandbox/old/j/s/1/manifest.json", ninety, (900+90+1)*time.Second)
	young := orphaned(t, b, "sandbox/young/j/s/1/manifest.json", ninety, (900+90-1)*time.Second)
	result := orphaned(t, b, "sandbox/young/j/s/1/out.tar", "x", time.Hour)
	orphaned(t, b, "sandbox/over/j/s/1/out.tar", "x", 901*time.Second)
	recent := orphaned(t, b, "sandbox/over/k/s/1/out.tar", "x", 899*time.Second)
	orphaned(t, b, "sandbox/broken/j/s/1/manifest.json", "not JSON", 901*time.Second)
	policy := sandbox.SweepPolicy{Worker: "me", OlderThan: 900 * time.Second}
	equal(t, "removed", sweep(t, h, policy),
		"sandbox/broken/j/s/1", "sandbox/me/j/artifact", "sandbox/me/j/s/1", "sandbox/old/j/s/1", "sandbox/over/j/s/1")
	equal(t, "left", b.keys(t), recent, young, result)
	equal(t, "removed by a sweep of nobody", sweep(t, h, sandbox.SweepPolicy{}))
}

func TestAnOrphansAgeIsKnown(t *testing.T) {
	b := newBucket("s3")
	orphaned(t, b, "sandbox/old/j/s/1/manifest.json", ninety, time.Hour)
	report, err := newHop(t, b, nil).Sweep(t.Context(), sandbox.SweepPolicy{OlderThan: time.Minute})
	if err != nil || len(report.Removed) != 1 || report.Removed[0].Age.Round(time.Minute) != time.Hour || report.Removed[0].Worker != "old" {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestAnArtifactLivesAsLongAsAnyRunOfItsJob(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	artifact := orphaned(t, b, "sandbox/other/j/artifact", "x", time.Hour)
	orphaned(t, b, "sandbox/other/j/over/1/manifest.json", ninety, time.Hour)
	alive := orphaned(t, b, "sandbox/other/j/running/1/manifest.json", ninety, time.Minute)
	alone := orphaned(t, b, "sandbox/other/k/artifact", "x", time.Hour)
	policy := sandbox.SweepPolicy{Worker: "me", OlderThan: 900 * time.Second}
	equal(t, "removed", sweep(t, h, policy), "sandbox/other/j/over/1", alone)
	equal(t, "left", b.keys(t), artifact, alive)
	b.ages[alive] = time.Hour
	equal(t, "removed afterwards", sweep(t, h, policy), artifact, "sandbox/other/j/running/1")
}

func TestASweepNeverTouchesARunOrAJobInFlight(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	m := carry(t, h, remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one"))
	for _, key := range b.keys(t) {
		b.ages[key] = 24 * time.Hour
	}
	dead := orphaned(t, b, dir+"one/2/manifest.json", ninety, 0)
	policy := sandbox.SweepPolicy{Worker: "worker-1", OlderThan: time.Second}
	equal(t, "removed", sweep(t, h, policy), dir+"one/2")
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "removed between two runs of a job", sweep(t, h, policy))
	if err := h.CloseJob(t.Context(), "worker-1", "job-2"); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", b.keys(t))
	// Another process of the same worker finds what this one has in flight.
	carry(t, h, remoteRequest(t, nil, "one"))
	equal(t, "removed by another", sweep(t, newHop(t, b, nil), policy), dir+"one/3")
	_ = dead
}

func TestASweepLeavesKeysThatAreNoBundles(t *testing.T) {
	b := newBucket("s3")
	all := []string{
		"blob/abc", "sandbox/me/j", "sandbox/me/j/artifact/1/out.tar", "sandbox/me/j/other", "sandbox/me/j/s/1/other",
		"sandbox/me/j/s/1/x/out.tar", "sandboxes/me/j/artifact",
	}
	for _, key := range all {
		orphaned(t, b, key, "x", time.Hour)
	}
	equal(t, "removed", sweep(t, newHop(t, b, nil), sandbox.SweepPolicy{Worker: "me", OlderThan: time.Second}))
	equal(t, "left", b.keys(t), all...)
}

func TestASweepFindsOnTheLeafWhatTheRoutersListingLacks(t *testing.T) {
	leaf := newBucket("s3")
	r, err := router.New(router.Config{
		Backends: map[string]storage.Backend{"s3": leaf}, Default: "s3", References: router.NewTable(),
	})
	if err != nil {
		t.Fatal(err)
	}
	key := orphaned(t, leaf, "sandbox/old/j/s/1/out.tar", "x", time.Hour)
	for o := range r.List(t.Context(), "") {
		t.Errorf("the router lists %s", o.Key)
	}
	if _, err := r.Head(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the router knows it: %v", err)
	}
	equal(t, "removed", sweep(t, newHop(t, leaf, r), sandbox.SweepPolicy{OlderThan: time.Minute}), "sandbox/old/j/s/1")
	equal(t, "left", leaf.keys(t))
}

// partial is a backend that can't do something about some keys.
type partial struct {
	*bucket
	list error
	bad  string
}

var errBad = errors.New("this one can't be touched")

func (p partial) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	if p.list != nil {
		return func(yield func(storage.Object, error) bool) { yield(storage.Object{}, p.list) }
	}
	return p.bucket.List(ctx, prefix)
}

func (p partial) Delete(ctx context.Context, key string) error {
	if key == p.bad {
		return errBad
	}
	return p.bucket.Delete(ctx, key)
}

func (p partial) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	if key == p.bad {
		return nil, storage.Object{}, errBad
	}
	return p.bucket.Get(ctx, key)
}

func TestASweepGoesOnAfterAnErrorAndSaysIt(t *testing.T) {
	b := newBucket("s3")
	bad := orphaned(t, b, "sandbox/a/j/s/1/manifest.json", ninety, time.Hour)
	orphaned(t, b, "sandbox/b/j/s/1/manifest.json", ninety, time.Hour)
	for _, worker := range []string{"other", "a"} {
		report, err := newHop(t, partial{b, nil, bad}, nil).Sweep(t.Context(), sandbox.SweepPolicy{Worker: worker, OlderThan: time.Minute})
		if !errors.Is(err, errBad) || slices.Contains(names(report), "sandbox/a/j/s/1") {
			t.Errorf("got %v, %v", names(report), err)
		}
	}
	equal(t, "left", b.keys(t), bad)
	if _, err := newHop(t, partial{b, errBad, ""}, nil).Sweep(t.Context(), sandbox.SweepPolicy{Worker: "a"}); !errors.Is(err, errBad) {
		t.Errorf("a listing that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBad)
	if _, err := newHop(t, b, nil).Sweep(ctx, sandbox.SweepPolicy{Worker: "a"}); !errors.Is(err, errBad) {
		t.Errorf("an ended context: %v", err)
	}
}
