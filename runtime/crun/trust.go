package crun

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Who may change what is run, or the way to it, decides what is run. That is
// to be root, its group and this process's user, and nobody else: by its owner
// and by its mode, as sshd and sudo look at their files.

// writableByOthers are the bits that let anybody but the owner write.
const writableByOthers = 0o022

// owned is who may change something: by its owner, its group and its mode.
type owned struct {
	uid, gid uint32
	mode     fs.FileMode
}

// othersWrite says whether the mode lets anybody write but the owner and root's
// own group. A link's mode says nothing.
func (o owned) othersWrite() bool {
	others := o.mode.Perm() & writableByOthers
	if o.gid == 0 {
		others &^= 0o020
	}
	return o.mode&fs.ModeSymlink == 0 && others != 0
}

// remedy is what to do where others may change something.
type remedy struct{ owner, mode string }

// remedyOf is for one thing alone.
func remedyOf(path string) remedy {
	return remedy{owner: "chown root " + path, mode: "chmod go-w " + path}
}

// changedBy says who else may change what is at path, and what to do about it,
// or nothing.
func changedBy(path string, o owned, fix remedy) error {
	switch {
	case o.uid != 0 && int(o.uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, which could change it (%s)", path, o.uid, fix.owner)
	case o.othersWrite():
		return fmt.Errorf("%s is writable for others than its owner, mode %04o (%s)", path, o.mode.Perm(), fix.mode)
	}
	return nil
}

// onTheWay is changedBy of what a path leads through or to. In a directory with
// the sticky bit, such as /tmp, others may make files and not take away those of
// root.
func onTheWay(path string, info fs.FileInfo) error {
	o, err := ownerOf(path, info)
	if err != nil {
		return err
	}
	if o.mode.IsDir() && o.mode&fs.ModeSticky != 0 {
		o.mode &^= writableByOthers
	}
	return changedBy(path, o, remedyOf(path))
}

func ownerOf(path string, info fs.FileInfo) (owned, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owned{}, fmt.Errorf("%s: the file system shows no owner", path)
	}
	return owned{uid: stat.Uid, gid: stat.Gid, mode: info.Mode()}, nil
}

// onlyOurs sees that nobody else may change what is at path; a directory's
// sticky bit does not help.
func onlyOurs(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	o, err := ownerOf(path, info)
	if err != nil {
		return err
	}
	return changedBy(path, o, remedyOf(path))
}

// maxLinks is how many links a path may lead through, as for the kernel.
const maxLinks = 40

// follow resolves an absolute path as the kernel does, and sees that nobody
// else may make any of its directories and links another. The path that it
// returns has no link in it.
func follow(path string) (string, error) {
	real, links := "/", 0
	left := strings.Split(path, "/")
	for len(left) > 0 {
		next := filepath.Join(real, left[0]) // ".." too: there is no link in real
		left = left[1:]
		info, err := os.Lstat(next)
		if err == nil && next != "/" {
			err = onTheWay(next, info)
		}
		switch {
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", &os.PathError{Op: "following", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return real, nil
}
