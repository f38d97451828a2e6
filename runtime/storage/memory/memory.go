// Package memory keeps objects in this process, for tests and for one process
// alone.
package memory

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Kind is the kind of this backend in the configuration.
const Kind = "in_memory"

// Backend is a storage.Backend in memory. It can't presign.
type Backend struct {
	storage.Unsigned
	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	data     []byte
	modified time.Time
}

// New returns an empty backend.
func New() *Backend { return &Backend{objects: map[string]object{}} }

// Kind implements storage.Backend.
func (*Backend) Kind() string { return Kind }

// Get implements storage.Backend.
func (b *Backend) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	o, err := b.find(ctx, "get", key)
	if err != nil {
		return nil, storage.Object{}, err
	}
	return io.NopCloser(bytes.NewReader(o.data)), o.as(key), nil
}

// Put implements storage.Backend.
func (b *Backend) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	var data bytes.Buffer
	data.Grow(int(min(max(size, 0), 64<<20)))
	if _, err := io.Copy(&data, storage.Exactly(&cancellable{ctx, r}, size)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault("put", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[key] = object{data.Bytes(), time.Now()}
	return nil
}

// cancellable is a reader that ends with its context.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Head implements storage.Backend.
func (b *Backend) Head(ctx context.Context, key string) (storage.Object, error) {
	o, err := b.find(ctx, "head", key)
	if err != nil {
		return storage.Object{}, err
	}
	return o.as(key), nil
}

// Delete implements storage.Backend.
func (b *Backend) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// List implements storage.Backend. It yields what was there when it began.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for _, o := range b.snapshot(prefix) {
			if ctx.Err() != nil {
				yield(storage.Object{}, context.Cause(ctx))
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (b *Backend) snapshot(prefix string) []storage.Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []storage.Object
	for key, o := range b.objects {
		if strings.HasPrefix(key, prefix) {
			list = append(list, o.as(key))
		}
	}
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (b *Backend) find(ctx context.Context, op, key string) (object, error) {
	if err := check(ctx, op, key); err != nil {
		return object{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[key]
	if !ok {
		return object{}, fault(op, key, storage.ErrNotFound)
	}
	return o, nil
}

func (o object) as(key string) storage.Object {
	return storage.Object{Key: key, Size: int64(len(o.data)), Modified: o.modified}
}

func check(ctx context.Context, op, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := storage.CheckKey(key); err != nil {
		return fault(op, key, err)
	}
	return nil
}

func fault(op, key string, err error) error {
	return &storage.Error{Op: op, Backend: Kind, Key: key, Err: err}
}
