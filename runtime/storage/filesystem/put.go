package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Put implements storage.Backend.
func (b *Backend) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	part := partName()
	err := b.write(part, &cancellable{ctx, storage.Exactly(r, size)})
	if err == nil {
		err = b.place(part, pathOf(key))
	}
	if err == nil {
		return nil
	}
	_ = b.root.Remove(part)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault("put", key, err)
}

func (b *Backend) write(part string, r io.Reader) error {
	f, err := b.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	// A name must not be on the disk before what it names.
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// placeRounds bounds how often a Delete may take the directory away that a Put
// has just made.
const placeRounds = 100

func (b *Backend) place(part, place string) error {
	var err error
	for range placeRounds {
		if err := b.root.MkdirAll(path.Dir(place), 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err = b.root.Rename(part, place); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
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

// reader reads an object's file, and fails if that ends early.
type reader struct {
	ctx  context.Context
	f    *os.File
	key  string
	left int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.f.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil, errors.Is(err, io.EOF) && r.left == 0:
		return n, err
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, fault("get", r.key, err)
}

func (r *reader) Close() error { return r.f.Close() }
