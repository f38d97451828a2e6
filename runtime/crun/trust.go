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
// to be root and this process's user, and nobody else: by its owner and by its
// mode, as sshd and sudo look at their files.

// writableByOthers are the bits that let anybody but the owner write.
const writableByOthers = 0o022

// changedBy says who else may change what has that owner and mode, and what to
// do about it, or nothing. A link's mode says nothing.
func changedBy(path string, uid uint32, mode fs.FileMode) error {
	switch {
	case uid != 0 && int(uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, which could change it (chown root %s)", path, uid, path)
	case mode&fs.ModeSymlink == 0 && mode.Perm()&writableByOthers != 0:
		return fmt.Errorf("%s is writable for others than its owner, mode %04o (chmod go-w %s)", path, mode.Perm(), path)
	}
	return nil
}

// onTheWay is changedBy of what a path leads through or to. In a directory with
// the sticky bit, such as /tmp, others may make files and not take away those of
// root.
func onTheWay(path string, info fs.FileInfo) error {
	uid, err := ownerOf(path, info)
	if err != nil {
		return err
	}
	mode := info.Mode()
	if mode.IsDir() && mode&fs.ModeSticky != 0 {
		mode &^= writableByOthers
	}
	return changedBy(path, uid, mode)
}

func ownerOf(path string, info fs.FileInfo) (uint32, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: the file system shows no owner", path)
	}
	return stat.Uid, nil
}

// onlyOurs sees that nobody else may change what is at path; a directory's
// sticky bit does not help.
func onlyOurs(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid, err := ownerOf(path, info)
	if err != nil {
		return err
	}
	return changedBy(path, uid, info.Mode())
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
