package build

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// failing is a backend all of whose calls fail in one way.
type failing struct {
	*memory.Backend
	err error
}

func (f failing) Put(context.Context, string, io.Reader, int64) error { return f.err }
func (f failing) Delete(context.Context, string) error                { return f.err }
func (f failing) List(context.Context, string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) { yield(storage.Object{}, f.err) }
}

func TestAMissingBucketIsARefusalWithItsKeyAndOtherErrorsStay(t *testing.T) {
	gone := &storage.Error{Op: "put", Backend: "s3", Key: "k", Detail: "status 404, NoSuchBucket", Hint: "another", Err: storage.ErrNotFound}
	late := &storage.Error{Op: "put", Backend: "s3", Key: "k", Err: storage.ErrUnavailable}
	for _, c := range []struct{ err, deletes error }{{gone, nil}, {late, late}, {context.Canceled, context.Canceled}} {
		b := bucketOf(failing{memory.New(), c.err}, config.Backend{Name: "minio", Bucket: "cache"})
		calls := map[string]error{"put": b.Put(t.Context(), "k", strings.NewReader(""), 0)}
		for _, err := range b.List(t.Context(), "") {
			calls["list"] = err
		}
		for name, err := range calls {
			same := errors.Is(err, c.err)
			said := err.Error() == `s3 storage: put "k": refused by the backend: status 404, NoSuchBucket; bucket "cache" has to exist: make it, or correct [storage.backends.minio] bucket`
			if missing := errors.Is(c.err, storage.ErrNotFound); missing == same || missing != said || missing != errors.Is(err, storage.ErrDenied) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := b.Delete(t.Context(), "k"); !errors.Is(err, c.deletes) {
			t.Errorf("deleting: %v", err)
		}
	}
	if gone.Hint != "another" || !errors.Is(gone, storage.ErrNotFound) {
		t.Errorf("the backend's own error was changed: %v", gone)
	}
}

func TestABucketIsItsBackendOtherwise(t *testing.T) {
	b := bucketOf(memory.New(), config.Backend{})
	if err := b.Put(t.Context(), "a/b", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	r, _, err := b.Get(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	var keys []string
	for o, err := range b.List(t.Context(), "a/") {
		if err != nil {
			t.Error(err)
		}
		keys = append(keys, o.Key)
	}
	if err != nil || !bytes.Equal(text, []byte("x")) || strings.Join(keys, " ") != "a/b" || b.Delete(t.Context(), "a/b") != nil {
		t.Errorf("%q, %v, %v", text, err, keys)
	}
}
