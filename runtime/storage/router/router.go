// Package router puts several backends behind one set of logical keys, and
// keeps the same bytes once.
//
// It answers from its own bookkeeping alone: an object that something else
// wrote to one of its backends does not exist here. That is why bundles do not
// go through it (RFC 0022 §5.2), but through the backend that Leaf returns.
package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Kind is what the router's errors call it.
const Kind = "router"

const blobPrefix = "blob/"

// Config configures a Router.
type Config struct {
	// Backends are the backends by their configured names.
	Backends map[string]storage.Backend
	// Default is the name of the one that new objects go to.
	Default string
	// References is the bookkeeping.
	References References
}

// Router is a storage.Backend over others. It presigns reads where the backend
// that holds the bytes can, and no writes: an object that came without its
// knowledge would be one that it denies.
type Router struct {
	config Config
	// A blob must not be removed between being found and being recorded. Other
	// processes are their bookkeeping's affair.
	writing sync.Mutex
}

var _ storage.Backend = (*Router)(nil)

// New returns a router.
func New(c Config) (*Router, error) {
	r := &Router{config: c}
	if c.References == nil {
		return nil, errors.New("storage router: it needs its references")
	}
	if len(c.Backends) == 0 {
		return nil, errors.New("storage router: no backends are configured")
	}
	if c.Default == "" {
		return nil, fmt.Errorf("storage router: no default is configured; there are %s", r.names())
	}
	if _, err := r.Leaf(c.Default); err != nil {
		return nil, err
	}
	return r, nil
}

// Leaf is the backend of that name, or the default for "". What it is used for
// the router does not see.
func (r *Router) Leaf(name string) (storage.Backend, error) {
	if name == "" {
		name = r.config.Default
	}
	b, ok := r.config.Backends[name]
	if !ok {
		return nil, fmt.Errorf("storage has no backend %q; there are %s", name, r.names())
	}
	return b, nil
}

// names lists the backends.
func (r *Router) names() string {
	var quoted []string
	for _, name := range slices.Sorted(maps.Keys(r.config.Backends)) {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return strings.Join(quoted, ", ")
}

// Kind implements storage.Backend.
func (*Router) Kind() string { return Kind }

// Get implements storage.Backend.
func (r *Router) Get(ctx context.Context, logical string) (io.ReadCloser, storage.Object, error) {
	leaf, ref, err := r.resolve(ctx, "get", logical)
	if err != nil {
		return nil, storage.Object{}, err
	}
	body, o, err := leaf.Get(ctx, ref.physical(logical).Key)
	if err != nil {
		return nil, storage.Object{}, err
	}
	return body, storage.Object{Key: logical, Size: o.Size, Modified: ref.Modified}, nil
}

// Head implements storage.Backend, from the bookkeeping.
func (r *Router) Head(ctx context.Context, logical string) (storage.Object, error) {
	_, ref, err := r.resolve(ctx, "head", logical)
	if err != nil {
		return storage.Object{}, err
	}
	return storage.Object{Key: logical, Size: ref.Size, Modified: ref.Modified}, nil
}

// List implements storage.Backend, from the bookkeeping.
func (r *Router) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for logical, err := range r.config.References.List(ctx, prefix) {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(storage.Object{}, err)
				return
			}
			o, err := r.Head(ctx, logical)
			if errors.Is(err, storage.ErrNotFound) {
				continue // forgotten meanwhile
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// PresignGet implements storage.Backend: it signs a read of the physical object
// that the logical key stands for. The error wraps storage.ErrNotFound when no
// such key is known, and storage.ErrUnsupported when the backend that holds the
// bytes can't presign.
func (r *Router) PresignGet(ctx context.Context, logical string, ttl time.Duration) (string, error) {
	leaf, ref, err := r.resolve(ctx, "presign get", logical)
	if err != nil {
		return "", err
	}
	return leaf.PresignGet(ctx, ref.physical(logical).Key, ttl)
}

// PresignPut implements storage.Backend: it can't, on purpose.
func (*Router) PresignPut(context.Context, string, time.Duration, int64) (string, error) {
	return "", storage.ErrUnsupported
}

// resolve finds where the bytes of a logical key are.
func (r *Router) resolve(ctx context.Context, op, logical string) (storage.Backend, Reference, error) {
	if err := check(ctx, op, logical); err != nil {
		return nil, Reference{}, err
	}
	ref, err := r.config.References.Find(ctx, logical)
	if err != nil {
		return nil, Reference{}, failed(ctx, op, logical, err)
	}
	leaf, err := r.Leaf(ref.Backend)
	if err != nil {
		return nil, Reference{}, fault(op, logical, err)
	}
	return leaf, ref, nil
}

func check(ctx context.Context, op, logical string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := storage.CheckKey(logical); err != nil {
		return fault(op, logical, err)
	}
	return nil
}

func failed(ctx context.Context, op, logical string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault(op, logical, err)
}

func fault(op, logical string, err error) error {
	if e, ok := errors.AsType[*storage.Error](err); ok {
		return e // says which backend
	}
	return &storage.Error{Op: op, Backend: Kind, Key: logical, Err: err}
}
