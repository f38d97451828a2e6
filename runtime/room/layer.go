package room

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Whiteouts say in a layer what of the layers below is gone
// (https://github.com/opencontainers/image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// apply makes the entries of one layer's tar part of the room. Whatever an
// entry is called, it lands below the root.
func (t *tree) apply(ctx context.Context, r io.Reader) error {
	// added is what this layer itself brought, which its own whiteouts do not
	// speak of.
	added := make(map[string]bool)
	for entries := tar.NewReader(r); ; {
		h, err := entries.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := inRoom(h.Name)
		if name == "." {
			continue
		}
		if err := t.entry(ctx, h, name, entries, added); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
}

func (t *tree) entry(ctx context.Context, h *tar.Header, name string, content io.Reader, added map[string]bool) error {
	switch base := path.Base(name); {
	case base == opaque:
		return t.clear(path.Dir(name), added)
	case strings.HasPrefix(base, whiteout):
		return t.remove(path.Join(path.Dir(name), strings.TrimPrefix(base, whiteout)), added)
	}
	for p := name; p != "."; p = path.Dir(p) {
		added[p] = true
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return t.realDir(name)
	case tar.TypeReg:
		return t.write(ctx, name, content, h.FileInfo().Mode())
	case tar.TypeSymlink:
		return t.symlink(h.Linkname, name)
	case tar.TypeLink:
		return t.link(inRoom(h.Linkname), name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	t.skipped = append(t.skipped, "/"+name)
	return nil
}

// realDir makes the directory name itself: as for every other entry, a link
// there gives way, while links on the way to it are followed.
func (t *tree) realDir(name string) error {
	parent, err := t.parent(name)
	if err != nil {
		return err
	}
	real := path.Join(parent, path.Base(name))
	if info, err := t.root.Lstat(real); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := t.root.Remove(real); err != nil {
			return err
		}
	}
	_, err = t.mkdir(real)
	return err
}

// link makes name a second name of the file target. A link to a link is one:
// it is not followed.
func (t *tree) link(target, name string) error {
	parent, err := follow(t.root, path.Dir(target))
	if err != nil {
		return err
	}
	target = path.Join(parent, path.Base(target))
	dir, err := t.parent(name)
	if err != nil {
		return err
	}
	real := path.Join(dir, path.Base(name))
	if real == target {
		return nil
	}
	if err := t.root.RemoveAll(real); err != nil {
		return err
	}
	return t.root.Link(target, real)
}

// clear removes what lower layers had in a directory.
func (t *tree) clear(dir string, added map[string]bool) error {
	real, err := follow(t.root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(t.root.FS(), real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := t.remove(path.Join(dir, e.Name()), added); err != nil {
			return err
		}
	}
	return nil
}

// remove removes one name of lower layers. What this layer has added below it
// stays.
func (t *tree) remove(name string, added map[string]bool) error {
	if base := path.Base(name); name == "." || base == "." || base == ".." {
		return nil
	}
	parent, err := follow(t.root, path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	real := path.Join(parent, path.Base(name))
	if !added[name] {
		return t.root.RemoveAll(real)
	}
	if isDir(t.root, real) {
		return t.clear(name, added)
	}
	return nil
}
