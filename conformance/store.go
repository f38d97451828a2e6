package conformance

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Store is a leaf backend under the suite's eyes. A target hands it to its
// runtime in the backend's place: the suite sees what is asked of it, and can
// have it lie about an object as a hostile or broken backend would.
type Store struct {
	storage.Backend
	// Prefix is how the keys of bundles begin, with its slash.
	Prefix string

	mu    sync.Mutex
	calls []StoreCall
	lies  map[string]Lie
}

// StoreCall is one call of a Store.
type StoreCall struct {
	// Op is "get", "put", "head" or "delete".
	Op  string
	Key string
}

// Lie is what a Store says an object is.
type Lie struct {
	// Content is what a Get brings.
	Content []byte
	// Size is what a Head says.
	Size int64
}

// NewStore watches a backend, on which bundles lie below prefix.
func NewStore(leaf storage.Backend, prefix string) *Store {
	return &Store{Backend: leaf, Prefix: prefix, lies: map[string]Lie{}}
}

// Lie has the store lie about every object whose key has the part in it, until
// the truth is asked for.
func (s *Store) Lie(part string, lie Lie) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies[part] = lie
}

// Truth ends all lies.
func (s *Store) Truth() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.lies)
}

// Calls are the calls about keys that have the part in them, in order.
func (s *Store) Calls(part string) []StoreCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []StoreCall
	for _, c := range s.calls {
		if strings.Contains(c.Key, part) {
			list = append(list, c)
		}
	}
	return list
}

// storeCallCap is how many calls are remembered.
const storeCallCap = 4096

// saw remembers a call and returns the lie about its key.
func (s *Store) saw(op, key string) (Lie, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= storeCallCap {
		s.calls = slices.Delete(s.calls, 0, storeCallCap/2)
	}
	s.calls = append(s.calls, StoreCall{op, key})
	for part, lie := range s.lies {
		if strings.Contains(key, part) && strings.HasSuffix(key, resultKey) {
			return lie, true
		}
	}
	return Lie{}, false
}

// resultKey is how the key of a result ends.
const resultKey = "/out.tar"

// Get implements storage.Backend.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	lie, lies := s.saw("get", key)
	if lies {
		return io.NopCloser(bytes.NewReader(lie.Content)), storage.Object{Key: key, Size: lie.Size}, nil
	}
	return s.Backend.Get(ctx, key)
}

// Head implements storage.Backend.
func (s *Store) Head(ctx context.Context, key string) (storage.Object, error) {
	o, err := s.Backend.Head(ctx, key)
	if lie, lies := s.saw("head", key); lies && err == nil {
		o.Size = lie.Size
	}
	return o, err
}

// Put implements storage.Backend.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	s.saw("put", key)
	return s.Backend.Put(ctx, key, r, size)
}

// Delete implements storage.Backend.
func (s *Store) Delete(ctx context.Context, key string) error {
	s.saw("delete", key)
	return s.Backend.Delete(ctx, key)
}
