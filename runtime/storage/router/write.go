package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Put implements storage.Backend: the bytes go to blob/<sha256> of the default
// backend, unless they are there, and the logical key stands for them then.
func (r *Router) Put(ctx context.Context, logical string, body io.Reader, size int64) error {
	if err := check(ctx, "put", logical); err != nil {
		return err
	}
	blob, digest, err := hashed(ctx, body, size)
	if err != nil {
		return failed(ctx, "put", logical, err)
	}
	defer blob.close()
	ref := Reference{Backend: r.config.Default, SHA256: digest, Size: size, Modified: time.Now()}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.store(ctx, ref.physical(logical).Key, blob, size); err != nil {
		return failed(ctx, "put", logical, err)
	}
	orphan, err := r.config.References.Record(ctx, logical, ref)
	if err == nil {
		err = r.drop(ctx, orphan)
	}
	if err != nil {
		return failed(ctx, "put", logical, err)
	}
	return nil
}

// store puts a blob on the default backend, unless it is there.
func (r *Router) store(ctx context.Context, key string, blob io.Reader, size int64) error {
	leaf := r.config.Backends[r.config.Default]
	o, err := leaf.Head(ctx, key)
	switch {
	case err == nil && o.Size == size:
		return nil
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return leaf.Put(ctx, key, blob, size)
}

// Delete implements storage.Backend: the bytes go with the last logical key
// that stands for them.
func (r *Router) Delete(ctx context.Context, logical string) error {
	if err := check(ctx, "delete", logical); err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	orphan, err := r.config.References.Forget(ctx, logical)
	if err == nil {
		err = r.drop(ctx, orphan)
	}
	if err != nil {
		return failed(ctx, "delete", logical, err)
	}
	return nil
}

func (r *Router) drop(ctx context.Context, orphan *Physical) error {
	if orphan == nil {
		return nil
	}
	leaf, err := r.Leaf(orphan.Backend)
	if err != nil {
		return err
	}
	return leaf.Delete(ctx, orphan.Key)
}

// spool is bytes that were read once and can be read again.
type spool struct {
	io.ReadSeeker
	file *os.File
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// hashed reads exactly size bytes of r and returns them with their digest. What
// can't be wound back is kept in a file without a name.
func hashed(ctx context.Context, r io.Reader, size int64) (*spool, string, error) {
	h := sha256.New()
	source := storage.Exactly(&cancellable{ctx, r}, size)
	if seeker, ok := r.(io.ReadSeeker); ok {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			if _, err := io.Copy(h, source); err != nil {
				return nil, "", err
			}
			_, err := seeker.Seek(start, io.SeekStart)
			return &spool{ReadSeeker: seeker}, hex.EncodeToString(h.Sum(nil)), err
		}
	}
	f, err := os.CreateTemp("", "batlehub-blob-")
	if err != nil {
		return nil, "", err
	}
	s := &spool{ReadSeeker: f, file: f}
	if err = os.Remove(f.Name()); err == nil {
		_, err = io.Copy(io.MultiWriter(h, f), source)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.close()
		return nil, "", err
	}
	return s, hex.EncodeToString(h.Sum(nil)), nil
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
