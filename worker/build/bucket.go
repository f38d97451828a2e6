package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// bucket is a backend that may lack the bucket which the configuration names.
// Of an object's call the storage says in that case that there is none, as of
// an object that is not there. Of these calls it can only be the bucket, and so
// the storage's failure and nobody's empty answer.
type bucket struct {
	storage.Backend
	hint string
}

func bucketOf(b storage.Backend, c config.Backend) bucket {
	return bucket{b, fmt.Sprintf("bucket %q has to exist: make it, or correct [storage.backends.%s] bucket", c.Bucket, c.Name)}
}

// Put implements storage.Backend.
func (b bucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return b.missing(b.Backend.Put(ctx, key, r, size))
}

// Delete implements storage.Backend. In a bucket that is not there nothing is
// left, which is what was asked for.
func (b bucket) Delete(ctx context.Context, key string) error {
	err := b.Backend.Delete(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// List implements storage.Backend.
func (b bucket) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for o, err := range b.Backend.List(ctx, prefix) {
			if !yield(o, b.missing(err)) {
				return
			}
		}
	}
}

// missing is err as a refusal, if it tells that there is no bucket.
func (b bucket) missing(err error) error {
	cause, is := errors.AsType[*storage.Error](err)
	if !is || !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	refused := *cause
	refused.Err, refused.Hint = storage.ErrDenied, b.hint
	return &refused
}
