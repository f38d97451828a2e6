package storage

import (
	"context"
	"io"
	"iter"
	"time"
)

// Backend keeps objects under keys. Keys are slash-separated UTF-8 of at most
// 1024 bytes, without an empty, "." or ".." segment; CheckKey says so.
//
// All methods are safe for concurrent use. An error is an *Error, except that
// a cancelled context's cause is returned as it is. A failed call may be
// repeated: no method leaves half an object behind.
type Backend interface {
	// Kind is the kind of backend as it is configured, such as "s3",
	// "filesystem" or "in_memory". It is constant.
	Kind() string

	// Get opens an object. Its errors wrap ErrNotFound when there is none. The
	// reader fails with an *Error when the transfer breaks off, and never ends
	// early without one.
	Get(ctx context.Context, key string) (io.ReadCloser, Object, error)

	// Put stores exactly size bytes of r under key, replacing what is there. A
	// reader of another length is an error, and nothing is stored then. It may
	// read r more than once if r is an io.ReadSeeker, and retries only then.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Head is what Get would open, without its bytes.
	Head(ctx context.Context, key string) (Object, error)

	// Delete removes an object. Removing one that is not there is no error.
	Delete(ctx context.Context, key string) error

	// List yields every object whose key begins with prefix, in key order. It
	// stops after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]

	// PresignGet returns a URL that anybody may GET the object with for ttl,
	// and nothing else. It asks no server: the object need not exist. Backends
	// that can't answer ErrUnsupported.
	PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error)

	// PresignPut returns a URL that anybody may PUT an object of exactly size
	// bytes with for ttl, and nothing else. Backends that can't answer
	// ErrUnsupported.
	PresignPut(ctx context.Context, key string, ttl time.Duration, size int64) (string, error)
}

// Object is one object of a backend.
type Object struct {
	Key string
	// Size is in bytes.
	Size int64
	// Modified is when it was stored, by the backend's clock.
	Modified time.Time
}

// Unsigned is embedded by backends that can't presign.
type Unsigned struct{}

// PresignGet implements Backend.
func (Unsigned) PresignGet(context.Context, string, time.Duration) (string, error) {
	return "", ErrUnsupported
}

// PresignPut implements Backend.
func (Unsigned) PresignPut(context.Context, string, time.Duration, int64) (string, error) {
	return "", ErrUnsupported
}
