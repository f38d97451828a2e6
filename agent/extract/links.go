package extract

import (
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// link is a symbolic link that an archive declared. It is made after all the
// archive's files, so that no file can be written through it.
type link struct {
	place
	target string
	base   *dir // what it must not lead out of
	fromZip,
	made, dead bool
}

type linkKey struct {
	dir  uint32
	name string
}

// expansions is after how many links the kernel gives up on a path.
const expansions = 40

// symlink declares a symbolic link at a claimed place.
func (t *tree) symlink(l *link) {
	t.links = append(t.links, l)
	t.linkAt[linkKey{l.dir.id, l.name}] = l
}

// plantSymlinks makes the links declared since the last call. Every link of
// the run is judged anew first, for a directory or another link that came
// later can change where an earlier one leads.
func (t *tree) plantSymlinks(ctx context.Context) error {
	for _, l := range t.links {
		if l.dead {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if t.leadsOut(l) {
			return refuse(l.entry, RuleSymlinkOutside, "its target "+quote(l.target)+" leads out of the archive's directory")
		}
	}
	var fresh []*link
	for _, l := range t.links {
		if !l.made && !l.dead {
			if err := t.plant(l); err != nil {
				return err
			}
			fresh = append(fresh, l)
		}
	}
	return t.settle(fresh)
}

func (t *tree) plant(l *link) error {
	dirfd, err := t.acquire(l.dir)
	if err != nil {
		return err
	}
	defer t.release(l.dir)
	for {
		err := retry0(func() error { return unix.Symlinkat(l.target, dirfd, l.name) })
		switch {
		case errors.Is(err, unix.EEXIST):
			delete(t.linkAt, linkKey{l.dir.id, l.name})
			if err := t.move(&l.place, kindSymlink); err != nil {
				return err
			}
			t.linkAt[linkKey{l.dir.id, l.name}] = l
		case err != nil:
			return l.fault("symlink", err)
		default:
			l.made = true
			t.x.count(func(r *wire.Extraction) { r.Symlinks++ })
			return nil
		}
	}
}

// settle turns a zip's links that lead nowhere into files with their text:
// most installers of zips know no links and write just that, so the text may
// be a program.
func (t *tree) settle(fresh []*link) error {
	for _, l := range fresh {
		if !l.fromZip {
			continue
		}
		if _, err := t.x.root.Stat(l.dir.path() + "/" + l.name); err == nil {
			continue
		}
		if err := t.remove(l.place); err != nil {
			return err
		}
		l.dead = true
		delete(t.linkAt, linkKey{l.dir.id, l.name})
		t.x.count(func(r *wire.Extraction) { r.Symlinks-- })
		if err := t.keepText(&l.place, l.target, RuleSymlinkDangling); err != nil {
			return err
		}
	}
	return nil
}

// keepText writes a link's text as a file in the link's place.
func (t *tree) keepText(p *place, text, rule string) error {
	t.x.note(p.entry, rule, skipped, "its text is kept as a file")
	return t.writeFile(p, []byte(text))
}

func (t *tree) writeFile(p *place, content []byte) error {
	fd, err := t.create(p)
	if err != nil {
		return err
	}
	if err := writeAll(fd, p, content); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if err := closeFile(fd, p); err != nil {
		return err
	}
	t.x.wrote(int64(len(content)))
	return nil
}

// leadsOut follows a link as the kernel would, through the other links of the
// run. What does not exist is taken for a directory, which it may become.
func (t *tree) leadsOut(l *link) bool {
	var stack []*dir // from the base down; nil for what is not there
	for d := l.dir; d != l.base; d = d.parent {
		stack = append([]*dir{d}, stack...)
	}
	rest := strings.Split(l.target, "/")
	for followed := 0; len(rest) > 0; {
		component := rest[0]
		rest = rest[1:]
		at := l.base
		if len(stack) > 0 {
			at = stack[len(stack)-1]
		}
		switch component {
		case "", ".":
			continue
		case "..":
			if len(stack) == 0 {
				return true
			}
			stack = stack[:len(stack)-1]
			continue
		}
		var next *dir
		if at != nil {
			if via := t.linkAt[linkKey{at.id, component}]; via != nil {
				if followed++; followed > expansions {
					return false
				}
				rest = append(strings.Split(via.target, "/"), rest...)
				continue
			}
			if c, ok := t.claims.get(at, component); ok && c.exact == t.claims.exact(component) {
				next = c.node
			}
		}
		stack = append(stack, next)
	}
	return false
}

// hardlink makes another name for a file that was extracted. Where the file
// system has no links to give, the file is copied.
func (t *tree) hardlink(to *place, from place) error {
	fromfd, err := t.acquire(from.dir)
	if err != nil {
		return err
	}
	defer t.release(from.dir)
	tofd, err := t.acquire(to.dir)
	if err != nil {
		return err
	}
	defer t.release(to.dir)
	for {
		err := retry0(func() error { return linkat(fromfd, from.name, tofd, to.name) })
		switch {
		case err == nil:
			t.x.count(func(r *wire.Extraction) { r.Hardlinks++ })
			return nil
		case errors.Is(err, unix.EEXIST):
			if err := t.move(to, kindFile); err != nil {
				return err
			}
		case errors.Is(err, unix.EMLINK), errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EXDEV):
			return t.copyFile(to, from)
		default:
			return to.fault("link", err)
		}
	}
}

// linkat is a variable for the test of a file system without links.
var linkat = func(fromfd int, from string, tofd int, to string) error {
	return unix.Linkat(fromfd, from, tofd, to, 0)
}

func (t *tree) copyFile(to *place, from place) error {
	src, err := t.openFile(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return to.fault("stat", err)
	}
	if err := t.x.reserve(to.entry, info.Size()); err != nil {
		return err
	}
	fd, err := t.create(to)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err := writeAll(fd, to, buf[:n]); err != nil {
			_ = unix.Close(fd)
			return err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			_ = unix.Close(fd)
			return to.fault("read", err)
		}
	}
	t.x.count(func(r *wire.Extraction) { r.Hardlinks++; r.Bytes += info.Size() })
	return closeFile(fd, to)
}
