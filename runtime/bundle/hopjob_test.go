package bundle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

const uploaded = "put " + dir + "artifact"

// uploads counts the uploads of the artifact.
func uploads(b *bucket) (n int) {
	for _, c := range b.called("put") {
		if c == uploaded {
			n++
		}
	}
	return n
}

func TestAnUncachedArtifactIsUploadedOnceForThreeScanners(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	for _, scanner := range []string{"one", "two", "three"} {
		m := carry(t, h, remoteRequest(t, artifact, scanner))
		if u := manifestOf(t, b, m).Entries[0].URL; !strings.HasPrefix(u, "https://s3/"+dir+"artifact?") {
			t.Errorf("%s reads %s", scanner, u)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if uploads(b) != 1 {
		t.Errorf("%d uploads", uploads(b))
	}
	equal(t, "what is left for the job's next run", b.keys(t), dir+"artifact")
	for range 2 {
		if err := h.CloseJob(t.Context(), "worker-1", "job-2"); err != nil {
			t.Error(err)
		}
	}
	equal(t, "what is left of the job", b.keys(t))
	if got := b.called("delete"); slices.Index(got, "delete "+dir+"artifact") != len(got)-1 {
		t.Errorf("the deletions are %q", got)
	}
}

func TestRunsAtOnceShareOneUpload(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	var wg sync.WaitGroup
	var waiting sync.WaitGroup
	waiting.Add(5)
	b.put = func(_ context.Context, key string) error {
		if strings.HasSuffix(key, "/artifact") {
			waiting.Wait() // until all five runs have begun
		}
		return nil
	}
	for n := range 5 {
		wg.Go(func() {
			r := remoteRequest(t, watchedArtifact{bundle.BytesArtifact([]byte("the artifact")), sync.OnceFunc(waiting.Done)}, fmt.Sprintf("s%d", n))
			m, err := h.Create(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if uploads(b) != 1 {
		t.Errorf("%d uploads", uploads(b))
	}
}

// watchedArtifact tells when a run asks for it.
type watchedArtifact struct {
	sandbox.Artifact
	asked func()
}

func (w watchedArtifact) Key() string { w.asked(); return "" }

func TestAFailedUploadIsTriedAgainByTheNextRun(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	failed := errors.New("the server is down")
	b.put = func(context.Context, string) error { return failed }
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	if _, err := h.Create(t.Context(), remoteRequest(t, artifact, "one")); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	b.put = nil
	carry(t, h, remoteRequest(t, artifact, "two"))
	carry(t, h, remoteRequest(t, artifact, "three"))
	if uploads(b) != 2 {
		t.Errorf("%d uploads", uploads(b))
	}
}

func TestARunThatIsCancelledDoesNotTakeTheUploadFromAnother(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	begun, goOn, joined := make(chan struct{}), make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	b.put = func(ctx context.Context, key string) error {
		if strings.HasSuffix(key, "/artifact") {
			once()
			<-goOn
			return ctx.Err()
		}
		return nil
	}
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	go func() {
		_, err := h.Create(ctx, remoteRequest(t, artifact, "one"))
		first <- err
	}()
	<-begun
	go func() {
		r := remoteRequest(t, watchedArtifact{artifact, sync.OnceFunc(func() { close(joined) })}, "two")
		m, err := h.Create(t.Context(), r)
		if err == nil {
			err = m.Close(t.Context())
		}
		second <- err
	}()
	<-joined
	cancel()
	if err := <-first; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("the first: %v", err)
	}
	close(goOn)
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
}

func TestAnUploadThatNobodyWaitsForIsEnded(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	begun, ended := make(chan struct{}), make(chan struct{})
	b.put = func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	go func() {
		_, err := h.Create(ctx, remoteRequest(t, artifact, "one"))
		over <- err
	}()
	<-begun
	cancel()
	if err := <-over; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	<-ended
	b.put = nil
	carry(t, h, remoteRequest(t, artifact, "two"))
	if uploads(b) != 2 {
		t.Errorf("%d uploads", uploads(b))
	}
}

func TestAnUploadLongerThanTheStartIsAStartTimeout(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	b.put = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	r := remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one")
	r.Start = 20 * time.Millisecond
	if _, err := h.Create(t.Context(), r); sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v", err)
	}
	clock := bundle.Clock{Start: time.Millisecond, Timeout: time.Millisecond}
	ctx, cancel := clock.Context(t.Context())
	defer cancel()
	r.Start = time.Minute
	if _, err := h.Create(ctx, r); sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v", err)
	}
}

func TestAnArtifactOfAnotherSizeIsTheSameErrorAsInARunDirectory(t *testing.T) {
	whole := bundle.BytesArtifact([]byte("twelve bytes"))
	for name, a := range map[string]sandbox.Artifact{
		"shorter": lying{whole, 13}, "longer": lying{whole, 11}, "endless": endless{whole}, "unreadable": failing{whole},
	} {
		b := newBucket("s3")
		h := newHop(t, b, nil)
		_, err := h.Create(t.Context(), remoteRequest(t, a, "one"))
		_, want := newStore(t).Create(t.Context(), request(withArtifact(t, a), "/work"))
		if sandbox.KindOf(err) != sandbox.KindOf(want) || sandbox.CodeOf(err) != sandbox.CodeOf(want) {
			t.Errorf("%s: got  %v\nwant %v", name, err, want)
		}
		size, ok := errors.AsType[*bundle.SizeError](err)
		wantSize, wantOK := errors.AsType[*bundle.SizeError](want)
		if ok != wantOK || ok && *size != *wantSize {
			t.Errorf("%s: got  %v\nwant %v", name, err, want)
		}
		equal(t, name, b.keys(t))
	}
}

func TestAJobHasOneArtifact(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	carry(t, h, remoteRequest(t, bundle.BytesArtifact([]byte("first")), "one"))
	for _, other := range []string{"other", "longer"} {
		_, err := h.Create(t.Context(), remoteRequest(t, bundle.BytesArtifact([]byte(other)), "two"))
		if sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "another artifact") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestAnArtifactThatWasSweptBetweenTwoRunsIsUploadedAgain(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	if err := carry(t, h, remoteRequest(t, artifact, "one")).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Backend.Delete(t.Context(), dir+"artifact"); err != nil {
		t.Fatal(err)
	}
	carry(t, h, remoteRequest(t, artifact, "two"))
	equal(t, "what is there", b.keys(t), dir+"artifact", dir+"two/3/manifest.json")
}

func TestAJobThatIsClosedEarlyKeepsItsArtifactForTheRunsInFlight(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	m := carry(t, h, remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one"))
	if err := h.CloseJob(t.Context(), "worker-1", "job-2"); err != nil {
		t.Fatal(err)
	}
	equal(t, "while it runs", b.keys(t), dir+"artifact", dir+"one/3/manifest.json")
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, "afterwards", b.keys(t))
}

func TestClosingAJobThatKeepsNothingAsksNothing(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	if err := carry(t, h, remoteRequest(t, nil, "one")).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.calls = nil
	for _, job := range []string{"job-2", "never"} {
		if err := h.CloseJob(t.Context(), "worker-1", job); err != nil {
			t.Error(err)
		}
	}
	equal(t, "what was asked", b.calls)
}

// stubborn is a backend that removes nothing, for a while.
type stubborn struct {
	*bucket
	err error
}

func (s *stubborn) Delete(ctx context.Context, key string) error {
	if s.err != nil {
		return s.err
	}
	return s.bucket.Delete(ctx, key)
}

func TestWhatCanNotBeRemovedIsSaidAndTriedAgain(t *testing.T) {
	s := &stubborn{bucket: newBucket("s3"), err: errors.New("the server is down")}
	h := bundle.NewHop(bundle.HopConfig{Runtime: "test", Leaf: s})
	r := remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one")
	m, err := h.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	answer(t, s.bucket, r, "findings")
	if _, _, err := m.Result(t.Context()); err != nil {
		t.Errorf("the answer is lost: %v", err)
	}
	if err := m.Close(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("Close says %v", err)
	}
	if err := h.CloseJob(t.Context(), "worker-1", "job-2"); !errors.Is(err, s.err) {
		t.Errorf("CloseJob says %v", err)
	}
	s.err = nil
	if err := h.CloseJob(t.Context(), "worker-1", "job-2"); err != nil {
		t.Errorf("CloseJob says %v", err)
	}
	if _, err := h.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "worker-1"}); err != nil {
		t.Error(err)
	}
	equal(t, "what is left", s.keys(t))
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestAHopThatIsClosedLeavesNothing(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	artifact := bundle.BytesArtifact([]byte("x"))
	carry(t, h, remoteRequest(t, artifact, "one"))
	other := remoteRequest(t, artifact, "one")
	other.Manifest.Label.Job = "over"
	if err := carry(t, h, other).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun, over := make(chan struct{}), make(chan error)
	b.put = func(ctx context.Context, _ string) error { close(begun); <-ctx.Done(); return ctx.Err() }
	go func() {
		third := remoteRequest(t, artifact, "one")
		third.Manifest.Label.Job = "uploading"
		_, err := h.Create(t.Context(), third)
		over <- err
	}()
	<-begun
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("a run whose upload was ended: %v", err)
	}
	equal(t, "what is left", b.keys(t))
	if _, err := h.Create(t.Context(), remoteRequest(t, nil, "two")); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("a run after the end: %v", err)
	}
}

func TestManyRunsOfManyJobsLeaveNothing(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	artifact := bundle.BytesArtifact([]byte("the artifact"))
	var wg sync.WaitGroup
	for job := range 4 {
		for scanner := range 4 {
			wg.Go(func() {
				name := fmt.Sprintf("job-%d", job)
				for attempt := range 10 {
					r := remoteRequest(t, artifact, fmt.Sprintf("s%d", scanner))
					r.Manifest.Label.Job, r.Manifest.Label.Attempt = name, attempt+1
					ctx, cancel := context.WithCancel(t.Context())
					if attempt%3 == 1 {
						go cancel()
					}
					m, err := h.Create(ctx, r)
					if err != nil && sandbox.KindOf(err) != sandbox.Cancelled {
						t.Error(err)
					}
					if err == nil {
						if err := m.Close(ctx); err != nil {
							t.Error(err)
						}
					}
					cancel()
					if err := h.CloseJob(t.Context(), "worker-1", name); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	equal(t, "what is left", b.keys(t))
}
