package crun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Digest is the SHA-256 of the tree at dir, as "sha256:" and hexadecimal
// digits: of every entry its path, type, mode, link target, size and content.
// Owners and times are not part of it.
func Digest(ctx context.Context, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	sum := sha256.New()
	err = walkTree(ctx, root, func(e entry) error { return digestEntry(ctx, root, sum, e) })
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// entry is one of a tree.
type entry struct {
	name   string
	stat   *syscall.Stat_t
	kind   fs.FileMode
	target string
}

// mode are the permission, set-id and sticky bits.
func (e entry) mode() uint32 { return e.stat.Mode & 0o7777 }

// walkTree visits a tree in the order of names.
func walkTree(ctx context.Context, root *os.Root, visit func(entry) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: the file system shows no owner", name)
		}
		e := entry{name: name, stat: stat, kind: info.Mode().Type()}
		if e.kind == fs.ModeSymlink {
			if e.target, err = root.Readlink(name); err != nil {
				return err
			}
		}
		return visit(e)
	})
}

// digestEntry writes one record. Names are quoted, so that none can look like
// two records.
func digestEntry(ctx context.Context, root *os.Root, sum hash.Hash, e entry) error {
	fmt.Fprintf(sum, "%q %s %o", e.name, kindName(e.kind), e.mode())
	switch e.kind {
	case fs.ModeSymlink:
		fmt.Fprintf(sum, " %q", e.target)
	case 0:
		content, size, err := digestFile(ctx, root, e.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, " %d %s", size, content)
	}
	fmt.Fprintln(sum)
	return nil
}

func kindName(m fs.FileMode) string {
	switch m {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "link"
	}
	return "other:" + m.String()
}

func digestFile(ctx context.Context, root *os.Root, name string) (digest string, size int64, err error) {
	f, err := root.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	for {
		if ctx.Err() != nil {
			return "", 0, context.Cause(ctx)
		}
		n, err := io.CopyN(sum, f, 16<<20)
		size += n
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), size, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
}

// survey is a look at a whole tree without reading its files.
type survey struct {
	// state changes whenever anything in the tree does: no program can set an
	// inode's change time.
	state string
	// fault is the first thing that a sandbox could change in it.
	fault string
}

// surveyTree looks at every entry of the tree.
func surveyTree(ctx context.Context, root *os.Root, base uint32) (survey, error) {
	var s survey
	sum := sha256.New()
	err := walkTree(ctx, root, func(e entry) error {
		fmt.Fprintf(sum, "%q %o %q %d %d %d %d %d %d %d\n", e.name, e.stat.Mode, e.target, e.stat.Dev, e.stat.Ino,
			e.stat.Uid, e.stat.Gid, e.stat.Size, e.stat.Mtim.Nano(), e.stat.Ctim.Nano())
		if s.fault == "" {
			s.fault = e.changeable(base)
		}
		return nil
	})
	s.state = hex.EncodeToString(sum.Sum(nil))
	return s, err
}

// changeable says how a sandbox's ids could change an entry, or nothing. The
// scratch space's mount point is covered, and open for everybody as its mount
// is to be.
func (e entry) changeable(base uint32) string {
	const others = 0o002
	switch {
	case inRange(base, e.stat.Uid):
		return "/" + e.name + " belongs to uid " + strconv.FormatUint(uint64(e.stat.Uid), 10) + ", which is one of a sandbox's"
	case inRange(base, e.stat.Gid):
		return "/" + e.name + " belongs to gid " + strconv.FormatUint(uint64(e.stat.Gid), 10) + ", which is one of a sandbox's"
	case e.kind != fs.ModeSymlink && e.mode()&others != 0 && e.name != "work":
		return "/" + e.name + " is writable for everybody"
	}
	return ""
}
