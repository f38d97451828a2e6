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
	"path/filepath"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
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
	// fault is the first thing for which no sandbox may have the tree, nil if
	// there is none.
	fault error
}

// surveyTree looks at every entry of the tree.
func surveyTree(ctx context.Context, root *os.Root, base uint32) (survey, error) {
	var s survey
	if s.fault = checkOnePiece(root); s.fault == nil {
		s.fault = checkExec(root)
	}
	sum := sha256.New()
	err := walkTree(ctx, root, func(e entry) error {
		fmt.Fprintf(sum, "%q %o %q %d %d %d %d %d %d %d\n", e.name, e.stat.Mode, e.target, e.stat.Dev, e.stat.Ino,
			e.stat.Uid, e.stat.Gid, e.stat.Size, e.stat.Mtim.Nano(), e.stat.Ctim.Nano())
		if s.fault == nil {
			s.fault = e.changeable(root.Name(), base)
		}
		return nil
	})
	s.state = hex.EncodeToString(sum.Sum(nil))
	return s, err
}

// changeable says who else could change an entry, or nothing. The scratch
// space's mount point is covered, and open for everybody as its mount is to be.
func (e entry) changeable(room string, base uint32) error {
	const theirs = "%s belongs to %s %d, which is one of a sandbox's (%s)"
	path, fix := filepath.Join(room, e.name), remedyOfRoom(room)
	o := owned{uid: e.stat.Uid, gid: e.stat.Gid, mode: fs.FileMode(e.mode()).Perm() | e.kind}
	if e.name == "work" {
		o.mode &^= writableByOthers
	}
	switch {
	case inRange(base, o.uid):
		return fmt.Errorf(theirs, path, "uid", o.uid, fix.owner)
	case inRange(base, o.gid):
		return fmt.Errorf(theirs, path, "gid", o.gid, fix.owner)
	}
	return changedBy(path, o, fix)
}

// remedyOfRoom is for all of a room: what came with one wrong entry came with
// many.
func remedyOfRoom(room string) remedy {
	return remedy{
		owner: "chown -hR root:root " + room,
		mode:  fmt.Sprintf("chmod -R go-w %s && chmod 1777 %[1]s/work", room),
	}
}

// checkOnePiece sees that nothing is mounted in the tree, be it of the tree's own
// file system. It would come with the root: not read-only, without its nosuid
// and nodev, and with what is not of the digest's tree. The kernel's list of
// mounts says so, and no st_dev does: an overlay has several.
func checkOnePiece(root *os.Root) error {
	dir := root.Name()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	for _, m := range mounts {
		if m.Mountpoint != dir {
			return fmt.Errorf("%s is a mount, and a room has to be of one piece (umount it)", m.Mountpoint)
		}
	}
	return nil
}

// checkExec sees that programs can be executed from the file system that the
// tree is on.
func checkExec(root *os.Root) error {
	var st unix.Statfs_t
	if err := unix.Statfs(root.Name(), &st); err != nil {
		return &os.PathError{Op: "statfs", Path: root.Name(), Err: err}
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system that is mounted noexec: no agent can be executed from there", root.Name())
	}
	return nil
}
