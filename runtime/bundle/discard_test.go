package bundle_test

import (
	"context"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Keys are discarded as often as somebody asks for it, and what an agent stores
// between is removed in the end.
func TestWhatIsDiscardedIsRemovedAgainAtTheEnd(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	m.Discard(t.Context())
	equal(t, "what is left", b.keys(t))
	store(t, b, dir+"one/3/out.tar", []byte("late"))
	m.Discard(t.Context())
	equal(t, "what is left", b.keys(t))
	store(t, b, dir+"one/3/out.tar", []byte("later still"))
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is left", b.keys(t))
}

// After a run's end its keys may be those of a run that was begun since.
func TestNothingIsDiscardedAfterTheEnd(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	m := carry(t, h, remoteRequest(t, nil, "one"))
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	carry(t, h, remoteRequest(t, nil, "one"))
	m.Discard(t.Context())
	equal(t, "what is there", b.keys(t), dir+"one/3/manifest.json")
}

// Once a result has been read its keys are gone, and nobody asks for that twice.
func TestKeysThatTheResultTookAreNotDiscardedAgain(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	answerOf(t, b, m)
	deleted := len(b.called("delete"))
	m.Discard(t.Context())
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.called("delete")); n != deleted {
		t.Errorf("%d deletions after the result, %d with it", n-deleted, deleted)
	}
}

// answerOf stores an answer and reads it back.
func answerOf(t *testing.T, b *bucket, m *bundle.Remote) {
	t.Helper()
	manifest, status := manifestOf(t, b, m), 0
	result := &wire.Result{Wire: wire.Version, Agent: "test", Ending: wire.EndExited, Status: &status, Extraction: wire.Extraction{Notes: []wire.Note{}}}
	tar, _, err := wire.EncodeResult(result, nil, manifest.SealKey, []int64{64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	store(t, b, dir+"one/3/out.tar", tar)
	if _, _, err := m.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is left", b.keys(t))
}

// What can't be discarded is left to the end, and is an error only if it is left
// there as well.
func TestWhatCannotBeDiscardedIsLeftToTheEnd(t *testing.T) {
	f := &faulted{newBucket("s3"), nil}
	h := newHop(t, f, nil)
	m := carry(t, h, remoteRequest(t, nil, "one"))
	f.err = storage.ErrUnavailable
	m.Discard(t.Context())
	equal(t, "what is left", f.keys(t), dir+"one/3/manifest.json")
	f.err = nil
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is left", f.keys(t))
}

// stuck is a backend that deletes nothing while somebody waits for it.
type stuck struct {
	*bucket
	hangs bool
}

func (s *stuck) Delete(ctx context.Context, key string) error {
	if s.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.bucket.Delete(ctx, key)
}

// Whoever discards keys beside something else does not wait for it longer.
func TestDiscardingEndsWithItsContext(t *testing.T) {
	s := &stuck{newBucket("s3"), true}
	m := carry(t, newHop(t, s, nil), remoteRequest(t, nil, "one"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Discard(ctx)
	s.hangs = false
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is left", s.keys(t))
}
