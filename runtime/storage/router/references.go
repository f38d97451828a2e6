package router

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Reference says where the bytes of a logical key are.
type Reference struct {
	// Backend is the backend's name in the configuration.
	Backend string
	// SHA256 is the digest of the bytes, in lower-case hex; their key is
	// blob/<sha256>, shared by all logical keys of the same content. Empty
	// means that the bytes are older than that and stand under Legacy.
	SHA256 string
	// Legacy is the key of bytes without a digest; empty means the logical
	// key itself.
	Legacy string
	// Size is in bytes.
	Size int64
	// Modified is when the reference was made.
	Modified time.Time
}

// Physical is one object of one backend.
type Physical struct{ Backend, Key string }

// physical is the object that a logical key stands for.
func (r Reference) physical(logical string) Physical {
	switch {
	case r.SHA256 != "":
		return Physical{r.Backend, blobPrefix + r.SHA256}
	case r.Legacy != "":
		return Physical{r.Backend, r.Legacy}
	}
	return Physical{r.Backend, logical}
}

// References is the router's bookkeeping, such as a table of a database. It is
// all that the router knows: what a presigned PUT wrote is not in it.
//
// Its methods are safe for concurrent use. An error that wraps
// storage.ErrNotFound says that there is no such logical key.
type References interface {
	// Find is the reference of a logical key.
	Find(ctx context.Context, logical string) (Reference, error)
	// Record replaces the reference of a logical key, and returns the one
	// that no logical key has any more for that, if so.
	Record(ctx context.Context, logical string, r Reference) (orphan *Physical, err error)
	// Forget removes a reference, and returns the same. Forgetting what is not
	// there is no error.
	Forget(ctx context.Context, logical string) (orphan *Physical, err error)
	// List yields the logical keys that begin with prefix, in their order.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Table is References in memory.
type Table struct {
	mu   sync.Mutex
	rows map[string]Reference
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{rows: map[string]Reference{}} }

// Find implements References.
func (t *Table) Find(_ context.Context, logical string) (Reference, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[logical]
	if !ok {
		return Reference{}, storage.ErrNotFound
	}
	return r, nil
}

// Record implements References.
func (t *Table) Record(_ context.Context, logical string, r Reference) (*Physical, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.rows[logical]
	t.rows[logical] = r
	if !known {
		return nil, nil
	}
	return t.orphan(before.physical(logical)), nil
}

// Forget implements References.
func (t *Table) Forget(_ context.Context, logical string) (*Physical, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.rows[logical]
	delete(t.rows, logical)
	if !known {
		return nil, nil
	}
	return t.orphan(before.physical(logical)), nil
}

func (t *Table) orphan(p Physical) *Physical {
	for logical, r := range t.rows {
		if r.physical(logical) == p {
			return nil
		}
	}
	return &p
}

// List implements References. It yields what was there when it began.
func (t *Table) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	t.mu.Lock()
	keys := slices.Sorted(maps.Keys(t.rows))
	t.mu.Unlock()
	return func(yield func(string, error) bool) {
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) && !yield(key, nil) {
				return
			}
		}
	}
}
