package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

// tree is a room that is being put together. Every path in it is relative to
// its root, which os.Root keeps it below.
type tree struct {
	root *os.Root
	// ownAgent says that the agent is put in after the sources.
	ownAgent bool
	skipped  []string
}

func (t *tree) source(ctx context.Context, s Source) error {
	switch {
	case (s.Path == "") == (s.Image == ""):
		return errors.New("a source is either a path or an image")
	case s.Image != "":
		if err := t.image(ctx, s.Image); err != nil {
			return fmt.Errorf("the image %s: %w", s.Image, err)
		}
		return nil
	}
	info, err := os.Stat(s.Path)
	if err != nil {
		return err
	}
	to := inRoom(s.To)
	if s.To == "" && !info.IsDir() {
		to = path.Join("usr/local/bin", filepath.Base(s.Path))
	}
	if err := t.checkPlace(to, !info.IsDir(), t.ownAgent); err != nil {
		return err
	}
	if info.IsDir() {
		return t.directory(ctx, s.Path, to)
	}
	return t.file(ctx, s.Path, to)
}

// inRoom is an absolute path of the room as a name below its root; "" and "/"
// are the root itself.
func inRoom(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		return "."
	}
	return p
}

// directory copies the content of a host's directory.
func (t *tree) directory(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		name := path.Join(to, filepath.ToSlash(rel))
		switch d.Type() {
		case fs.ModeDir:
			_, err := t.mkdir(name)
			return err
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return t.symlink(target, name)
		case 0:
			return t.file(ctx, p, name)
		}
		t.skipped = append(t.skipped, p)
		return nil
	})
}

// file copies one regular file of the host.
func (t *tree) file(ctx context.Context, from, to string) error {
	src, err := bundle.OpenRegular(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	return t.write(ctx, to, src, info.Mode())
}

// write makes the file name with what src holds.
func (t *tree) write(ctx context.Context, name string, src io.Reader, mode fs.FileMode) error {
	name, err := t.vacate(name)
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	dst, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, err := io.Copy(dst, contextReader{ctx, src}); err != nil {
		return err
	}
	if err := dst.Chmod(perm); err != nil {
		return err
	}
	return dst.Close()
}

// contextReader ends a copy when its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

func (t *tree) symlink(target, name string) error {
	name, err := t.vacate(name)
	if err != nil {
		return err
	}
	return t.root.Symlink(target, name)
}

// mkdir makes the directory name and those above it, and returns where it
// really is: links on the way are followed as they will be in the room.
func (t *tree) mkdir(name string) (string, error) {
	parent, err := t.parent(name)
	if err != nil || name == "." {
		return ".", err
	}
	real := path.Join(parent, path.Base(name))
	info, err := t.root.Lstat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case info.IsDir():
		return real, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := follow(t.root, real)
		if err == nil && target != real {
			return t.mkdir(target)
		}
		fallthrough
	default:
		if err := t.root.RemoveAll(real); err != nil {
			return "", err
		}
	}
	if err := t.root.Mkdir(real, 0o755); err != nil {
		return "", err
	}
	return real, t.root.Chmod(real, 0o755)
}

// parent makes the directory that name is in, and returns where it really is.
func (t *tree) parent(name string) (string, error) {
	dir := path.Dir(name)
	if dir == "." || dir == "/" {
		return ".", nil
	}
	return t.mkdir(dir)
}

// vacate returns where name really is, with nothing there.
func (t *tree) vacate(name string) (string, error) {
	if name == "." {
		return "", errors.New("the root of a room is a directory")
	}
	parent, err := t.parent(name)
	if err != nil {
		return "", err
	}
	real := path.Join(parent, path.Base(name))
	return real, t.root.RemoveAll(real)
}

// mountPoints are what a sandbox mounts on. bundle and out are those of the
// crun runtime, whose sandboxes can't make one themselves.
var mountPoints = []string{"work", "proc", "dev", "bundle", "out"}

// workMode is the mode of /work. runc gives a tmpfs the mode of the directory
// that it is mounted on, whatever its options say.
const workMode = 0o777 | fs.ModeSticky

// tmpTarget is where /tmp leads.
const tmpTarget = "work/tmp"

// finish makes what a read-only root can't be given later: directories to
// mount on, /usr/bin (the read-only check would see that it is missing, not
// that it is read-only), and /tmp in the one writable place. What a source put
// where something is mounted, or at /tmp, no process would ever see, and it is
// left out.
func (t *tree) finish() error {
	for _, name := range append([]string{"tmp"}, mountPoints...) {
		if entries, err := fs.ReadDir(t.root.FS(), name); err == nil && len(entries) > 0 {
			t.skipped = append(t.skipped, "/"+name+"/*")
		} else if info, err := t.root.Lstat(name); err == nil && info.IsDir() && name != "tmp" {
			continue
		}
		if err := t.root.RemoveAll(name); err != nil {
			return err
		}
		if name == "tmp" {
			continue
		}
		if _, err := t.mkdir(name); err != nil {
			return err
		}
	}
	if err := t.root.Chmod("work", workMode); err != nil {
		return err
	}
	if _, err := t.mkdir("usr/bin"); err != nil {
		return err
	}
	return t.symlink(tmpTarget, "tmp")
}
