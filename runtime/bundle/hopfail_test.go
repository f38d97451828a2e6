package bundle_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// faulted is a backend whose calls fail as long as err is not nil.
type faulted struct {
	*bucket
	err error
}

func (f *faulted) fault(op, key string) error {
	if f.err == nil {
		return nil
	}
	return &storage.Error{Op: op, Backend: "s3", Key: key, Detail: "it said so", Hint: f.hint(), Err: f.err}
}

// hint is what an S3 backend says about a refusal.
func (f *faulted) hint() string {
	if errors.Is(f.err, storage.ErrDenied) {
		return "this host's clock is an hour ahead of the server's: set it by NTP"
	}
	return ""
}

func (f *faulted) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := f.fault("put", key); err != nil {
		return err
	}
	return f.bucket.Put(ctx, key, r, size)
}

func (f *faulted) Head(ctx context.Context, key string) (storage.Object, error) {
	if err := f.fault("head", key); err != nil {
		return storage.Object{}, err
	}
	return f.bucket.Head(ctx, key)
}

func (f *faulted) Delete(ctx context.Context, key string) error {
	if err := f.fault("delete", key); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return f.bucket.Delete(ctx, key)
}

func (f *faulted) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	if err := f.fault("list", prefix); err != nil {
		return func(yield func(storage.Object, error) bool) { yield(storage.Object{}, err) }
	}
	return f.bucket.List(ctx, prefix)
}

// storageFaults are what a backend may say, and what that is to a run.
var storageFaults = []struct {
	err  error
	code sandbox.Code
	hint string
}{
	{storage.ErrUnavailable, sandbox.CodeStorage, "the storage endpoint"},
	{storage.ErrDenied, sandbox.CodeStorage, "this host's clock is an hour ahead of the server's"},
	{storage.ErrNoSpace, sandbox.CodeNoSpace, "free space where the storage backend"},
	{errors.New("anything"), sandbox.CodeInternal, ""},
}

// isFault checks a crash of one line that says everything once.
func isFault(t *testing.T, what string, err, cause error, code sandbox.Code, hint string) {
	t.Helper()
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Kind != sandbox.Crashed || e.Code != code || !errors.Is(err, cause) || !strings.Contains(e.Hint, hint) || e.Runtime != "test" {
		t.Errorf("%s, %v: got %#v, %v", what, cause, e, err)
		return
	}
	for _, word := range []string{"sandbox test", hint} {
		if word != "" && strings.Count(err.Error(), word) != 1 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, want %q once", what, err, word)
		}
	}
}

func TestABackendsErrorSaysWhoseFaultItIs(t *testing.T) {
	for _, c := range storageFaults {
		f := &faulted{newBucket("s3"), nil}
		h := bundle.NewHop(bundle.HopConfig{Runtime: "test", Leaf: f})
		m, err := h.Create(t.Context(), remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one"))
		if err != nil {
			t.Fatal(err)
		}
		f.err = c.err
		_, err = h.Create(t.Context(), remoteRequest(t, nil, "two"))
		isFault(t, "create", err, c.err, c.code, c.hint)
		_, _, err = m.Result(t.Context())
		e := bundle.ReadError(err)
		e.Runtime = "test"
		isFault(t, "result", e, c.err, c.code, c.hint)
		isFault(t, "close", m.Close(t.Context()), c.err, c.code, c.hint)
		isFault(t, "close of the job", h.CloseJob(t.Context(), "worker-1", "job-2"), c.err, c.code, c.hint)
		_, err = h.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "worker-1"})
		isFault(t, "sweep", err, c.err, c.code, c.hint)
		isFault(t, "end", h.Close(), c.err, c.code, c.hint)
		f.err = nil
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestABucketThatIsMissingIsAMatterOfConfiguration(t *testing.T) {
	f := &faulted{newBucket("s3"), storage.ErrNotFound}
	_, err := newHop(t, f, nil).Create(t.Context(), remoteRequest(t, nil, "one"))
	if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeConfig || !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestAnUploadThatTheBackendRefusesIsTheStoragesFault(t *testing.T) {
	f := &faulted{newBucket("s3"), storage.ErrUnavailable}
	h := bundle.NewHop(bundle.HopConfig{Runtime: "test", Leaf: f})
	_, err := h.Create(t.Context(), remoteRequest(t, bundle.BytesArtifact([]byte("x")), "one"))
	isFault(t, "create", err, f.err, sandbox.CodeStorage, "the storage endpoint")
	f.err = nil
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestAResultThatIsNotThereIsNoFaultOfTheStorage(t *testing.T) {
	m := carry(t, newHop(t, newBucket("s3"), nil), remoteRequest(t, nil, "one"))
	_, _, err := m.Result(t.Context())
	if e := bundle.ReadError(err); e.Kind != sandbox.Crashed || e.Code != sandbox.CodeNoResult {
		t.Errorf("got %v", e)
	}
}

func TestAResultThatIsReadForTooLongIsATimeout(t *testing.T) {
	clock := bundle.Clock{Start: 1, Timeout: 1}
	ctx, cancel := clock.Context(t.Context())
	defer cancel()
	<-ctx.Done()
	for want, err := range map[sandbox.Kind]error{
		sandbox.RunTimeout: context.Cause(ctx),
		sandbox.Cancelled:  context.Canceled,
		sandbox.Crashed:    errors.New("anything"),
	} {
		if e := bundle.ReadError(err); e.Kind != want {
			t.Errorf("%v: got %v, want %s", err, e, want)
		}
	}
}
