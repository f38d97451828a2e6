// Package rmtree removes a tree that somebody hostile has filled: one with
// directories nobody may enter, links that lead elsewhere, and more levels
// than there are descriptors.
package rmtree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// levels is how many directories are held open. What is deeper is moved
	// up before it is removed.
	levels = 32
	// batch is how many names are read at a time.
	batch = 1024
)

// Remove removes the file or tree at path and looks that it is gone. No link
// at or below path is followed, and nothing outside is changed, even if the
// tree changes meanwhile. A path that does not exist is no error.
func Remove(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	defer unix.Close(parent) //nolint:errcheck // nothing was written through it
	r := remover{}
	if err := r.entry(parent, filepath.Base(path), 0); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: it is still there", path)
	}
	return nil
}

// remover is one removal. top is the tree's own first directory, which deep
// directories are moved to; moved numbers them, and removed counts what went.
type remover struct {
	top     int
	moved   int
	removed int
}

// entry removes name from the directory dir.
func (r *remover) entry(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil:
		r.removed++
		return nil
	case errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	f, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if depth == 0 {
		r.top = fd
	}
	if depth >= levels {
		return r.moveUp(dir, name)
	}
	return r.empty(dir, name, f, depth)
}

// moveUp puts a deep directory into the tree's first one, which is emptied
// again until nothing is left.
// It can replace nothing but an empty directory there.
func (r *remover) moveUp(dir int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(dir, name, r.top, "moved-"+strconv.Itoa(r.moved))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR):
		default:
			return &os.PathError{Op: "rename", Path: name, Err: err}
		}
	}
}

// empty removes what is in f, which is name in dir, and then f itself. It reads
// f again as long as that leads anywhere: directories may have been moved
// there, and a file system may leave names out while others go.
func (r *remover) empty(dir int, name string, f *os.File, depth int) error {
	fd := int(f.Fd())
	for {
		before := r.removed + r.moved
		if err := r.content(fd, f, depth); err != nil {
			return err
		}
		err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			r.removed++
			return nil
		}
		if r.removed+r.moved == before || !errors.Is(err, unix.ENOTEMPTY) {
			return &os.PathError{Op: "rmdir", Path: name, Err: err}
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

func (r *remover) content(fd int, f *os.File, depth int) error {
	for {
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			if err := r.entry(fd, name, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 && err == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openDir opens the directory name in dir for being emptied, whatever its
// mode was.
func openDir(dir int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := unlock(dir, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
		// Where this fails the directory's owner is somebody else, and only a
		// capability helps, which then makes the mode irrelevant too.
		_ = unix.Fchmod(fd, 0o700)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlock lets the owner enter a directory. A descriptor that only names it
// keeps a link put in its place from being followed.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written through it
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}
