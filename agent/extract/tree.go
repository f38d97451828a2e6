package extract

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

const (
	fileMode = 0o644
	dirMode  = 0o755

	// openDirs is how many directories are kept open. Archives are written
	// directory by directory, so that more would rarely be hit.
	openDirs = 64
)

// dir is a directory that stands on disk. Every creation happens relative to
// one, by a single component and without following a link, so that no name can
// lead anywhere else.
type dir struct {
	parent *dir
	name   string // on disk; "." for the work directory
	id     uint32
	depth  int

	fd   int // -1 while it is not open
	refs int
}

// path is where d stands below the work directory.
func (d *dir) path() string {
	if d.parent == nil {
		return "."
	}
	parts := make([]string, 0, d.depth)
	for ; d.parent != nil; d = d.parent {
		parts = append(parts, d.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// place is one name in a directory.
type place struct {
	dir   *dir
	name  string // on disk
	entry string // in the archive
	path  string // in the archive, cleaned
}

// tree is everything that was made below the work directory. It is the one
// place that creates, links and removes.
type tree struct {
	x    *Extractor
	root *os.File
	top  *dir

	mu     sync.Mutex
	nextID uint32
	opened []*dir
	hand   int
	claims claims

	links  []*link
	linkAt map[linkKey]*link

	checked struct{ file, dir bool }
	fix     struct{ file, dir bool }
}

func newTree(x *Extractor) *tree {
	t := &tree{
		x: x, top: &dir{name: ".", fd: -1}, nextID: 1,
		claims: claims{seed: maphash.MakeSeed(), byName: make(map[uint64]claim), next: make(map[uint64]int)},
		linkAt: make(map[linkKey]*link),
	}
	if x.policy.CaseClash == wire.ClashReplace {
		t.claims.names = make(map[uint64]string)
	}
	return t
}

// open opens the work directory through the caller's os.Root.
func (t *tree) open() error {
	f, err := t.x.root.Open(".")
	if err != nil {
		return err
	}
	t.root, t.top.fd = f, int(f.Fd())
	return nil
}

func (t *tree) close() {
	for _, d := range t.opened {
		_ = unix.Close(d.fd)
		d.fd, d.refs = -1, 0
	}
	t.opened, t.hand = nil, 0
	_ = t.root.Close()
	t.top.fd = -1
}

// acquire opens d if it is not open and keeps it so until release.
func (t *tree) acquire(d *dir) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acquireLocked(d)
}

func (t *tree) release(d *dir) {
	t.mu.Lock()
	d.refs--
	t.mu.Unlock()
}

func (t *tree) acquireLocked(d *dir) (int, error) {
	if d.fd < 0 {
		parent, err := t.acquireLocked(d.parent)
		if err != nil {
			return -1, err
		}
		fd, err := retry(func() (int, error) {
			return unix.Openat(parent, d.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		d.parent.refs--
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: d.path(), Err: err}
		}
		d.fd = fd
		t.keep(d)
	}
	d.refs++
	return d.fd, nil
}

// keep puts d among the open directories, in the place of one that nobody
// uses if there are many.
func (t *tree) keep(d *dir) {
	if len(t.opened) < openDirs {
		t.opened = append(t.opened, d)
		return
	}
	for range t.opened {
		t.hand = (t.hand + 1) % len(t.opened)
		if old := t.opened[t.hand]; old.refs == 0 {
			_ = unix.Close(old.fd)
			old.fd = -1
			t.opened[t.hand] = d
			return
		}
	}
	t.opened = append(t.opened, d)
}

// base returns the directory an archive is unpacked into, made if missing.
func (t *tree) base(into wire.RelPath) (*dir, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.top
	if into.IsRoot() {
		return d, nil
	}
	for component := range strings.SplitSeq(into.String(), "/") {
		c, taken := t.claims.get(d, component)
		switch {
		case taken && c.exact == t.claims.exact(component) && c.node != nil:
			d = c.node
			continue
		case taken && c.exact == t.claims.exact(component):
			return nil, refuse(into.String(), RuleTypeClash, "an earlier archive has something else where this one goes")
		}
		made, err := t.mkdir(d, component)
		if errors.Is(err, errForeign) {
			return nil, fmt.Errorf("making %s: %w", quote(into.String()), unix.ENOTDIR)
		}
		if err != nil {
			return nil, err
		}
		if !taken {
			t.claims.set(made.parent, component, claim{kind: kindDir, node: made})
		}
		d = made
	}
	return d, nil
}

// errForeign says that a name is taken by something that no archive made.
var errForeign = errors.New("the name is taken")

// mkdir makes a directory, or adopts the one that is there.
func (t *tree) mkdir(parent *dir, name string) (*dir, error) {
	fd, err := t.acquireLocked(parent)
	if err != nil {
		return nil, err
	}
	defer func() { parent.refs-- }()
	d := &dir{parent: parent, name: name, id: t.nextID, depth: parent.depth + 1, fd: -1}
	t.nextID++
	err = retry0(func() error { return unix.Mkdirat(fd, name, dirMode) })
	if err == nil {
		return d, t.fixDir(fd, name)
	}
	var st unix.Stat_t
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return nil, errForeign
			}
			return d, nil
		}
	}
	return nil, &os.PathError{Op: "mkdir", Path: d.path(), Err: err}
}

// fixDir gives a directory its mode where the umask takes some of it away.
func (t *tree) fixDir(fd int, name string) error {
	if !t.checked.dir {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "stat", Path: name, Err: err}
		}
		t.checked.dir, t.fix.dir = true, st.Mode&0o777 != dirMode
	}
	if !t.fix.dir {
		return nil
	}
	if err := unix.Fchmodat(fd, name, dirMode, 0); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func retry0(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
