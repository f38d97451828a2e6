// Package filesystem keeps objects in a directory, each in a file of its own.
//
// An object appears whole or not at all: it is written beside its place and
// moved there. Nothing outside the directory is reached, whatever links stand
// in it. It can't presign.
package filesystem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Kind is the kind of this backend in the configuration.
const Kind = "filesystem"

// partDir is where objects are written before they are moved. No key's place
// can be called so.
const partDir = ".part"

// stale is how old a part must be before nobody can be writing it any more.
const stale = 24 * time.Hour

// Backend is a storage.Backend in a directory.
type Backend struct {
	storage.Unsigned
	dir  string
	root *os.Root
}

// New returns the backend of the directory dir, which has to exist. Parts that
// a killed process left there a day ago are removed.
func New(dir string) (*Backend, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("filesystem storage: %w", err)
	}
	b := &Backend{dir: dir, root: root}
	if err := b.prepare(); err != nil {
		root.Close()
		return nil, fmt.Errorf("filesystem storage in %s: %w", dir, err)
	}
	return b, nil
}

func (b *Backend) prepare() error {
	if err := b.root.Mkdir(partDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	parts, err := fs.ReadDir(b.root.FS(), partDir)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if info, err := p.Info(); err == nil && time.Since(info.ModTime()) > stale {
			_ = b.root.Remove(path.Join(partDir, p.Name()))
		}
	}
	return nil
}

// Close closes the directory. What it holds stays.
func (b *Backend) Close() error { return b.root.Close() }

// String is the directory.
func (b *Backend) String() string { return "filesystem " + b.dir }

// Kind implements storage.Backend.
func (*Backend) Kind() string { return Kind }

// Get implements storage.Backend. The reader goes on reading what it opened,
// whatever is put or deleted meanwhile.
func (b *Backend) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	if err := check(ctx, "get", key); err != nil {
		return nil, storage.Object{}, err
	}
	f, err := b.root.OpenFile(pathOf(key), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, storage.Object{}, fault("get", key, err)
	}
	o, err := object(f.Stat, key)
	if err != nil {
		f.Close()
		return nil, storage.Object{}, fault("get", key, err)
	}
	return &reader{ctx: ctx, f: f, key: key, left: o.Size}, o, nil
}

// Head implements storage.Backend.
func (b *Backend) Head(ctx context.Context, key string) (storage.Object, error) {
	if err := check(ctx, "head", key); err != nil {
		return storage.Object{}, err
	}
	o, err := object(func() (fs.FileInfo, error) { return b.root.Stat(pathOf(key)) }, key)
	if err != nil {
		return storage.Object{}, fault("head", key, err)
	}
	return o, nil
}

func object(stat func() (fs.FileInfo, error), key string) (storage.Object, error) {
	info, err := stat()
	if err != nil {
		return storage.Object{}, err
	}
	if !info.Mode().IsRegular() {
		return storage.Object{}, errors.New("not a regular file")
	}
	return storage.Object{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete implements storage.Backend. Directories that become empty go too.
func (b *Backend) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	place := pathOf(key)
	if err := b.root.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("delete", key, err)
	}
	b.prune(path.Dir(place))
	return nil
}

// prune removes directories that are empty, from dir upwards. What is not
// empty, or being filled, ends it.
func (b *Backend) prune(dir string) {
	for dir != "." && b.root.Remove(dir) == nil {
		dir = path.Dir(dir)
	}
}

// List implements storage.Backend. It yields what was there when it began.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		list, err := b.find(ctx, prefix)
		if err != nil {
			yield(storage.Object{}, err)
			return
		}
		for _, o := range list {
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

// find is the objects under prefix in key order, which is not the order of
// names on the disk.
func (b *Backend) find(ctx context.Context, prefix string) ([]storage.Object, error) {
	var list []storage.Object
	top := strings.TrimSuffix(dirsOf(prefix), "/")
	if top == "" {
		top = "."
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	err := fs.WalkDir(b.root.FS(), top, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted meanwhile, or never there
		case err != nil:
			return err
		case e.IsDir() && name == partDir:
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		key, ok := keyOf(name)
		if !ok || !strings.HasPrefix(key, prefix) {
			return nil
		}
		if o, err := object(e.Info, key); err == nil {
			list = append(list, o)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault("list", prefix, err)
	}
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

func check(ctx context.Context, op, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := storage.CheckKey(key); err != nil {
		return &storage.Error{Op: op, Backend: Kind, Key: key, Err: err}
	}
	return nil
}

// fault is a failed call, in the port's terms where it has some.
func fault(op, key string, err error) error {
	e := &storage.Error{Op: op, Backend: Kind, Key: key, Err: err}
	wraps := func(kind error) {
		e.Err, e.Detail = kind, err.Error()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Err = storage.ErrNotFound
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		wraps(storage.ErrNoSpace)
		e.Hint = "free space below the directory, or put it elsewhere"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		wraps(storage.ErrDenied)
		e.Hint = "the directory has to be writable for this process"
	}
	return e
}

func partName() string { return path.Join(partDir, strings.ToLower(rand.Text())) }
