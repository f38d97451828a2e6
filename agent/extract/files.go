package extract

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// take claims a name for a file or a symbolic link.
func (t *tree) take(d *dir, name string, k kind, entry string) (place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	disk, _, err := t.claim(d, name, k, entry)
	return place{dir: d, name: disk, entry: entry}, err
}

// create makes the file of a claimed place, which must be new: what is there
// is never opened. It may move p to another name.
func (t *tree) create(p *place) (int, error) {
	dirfd, err := t.acquire(p.dir)
	if err != nil {
		return -1, err
	}
	defer t.release(p.dir)
	for {
		fd, err := retry(func() (int, error) {
			return unix.Openat(dirfd, p.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		})
		switch {
		case errors.Is(err, unix.EEXIST):
			if err := t.move(p, kindFile); err != nil {
				return -1, err
			}
		case err != nil:
			return -1, p.fault("create", err)
		default:
			return fd, t.fixFile(fd, p)
		}
	}
}

func (t *tree) move(p *place, k kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	disk, err := t.foreign(p.dir, p.name, k, p.entry)
	p.name = disk
	return err
}

// fixFile gives a file its mode where the umask takes some of it away.
func (t *tree) fixFile(fd int, p *place) error {
	t.mu.Lock()
	checked, fix := t.checked.file, t.fix.file
	t.mu.Unlock()
	if checked && !fix {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return p.fault("stat", err)
	}
	fix = st.Mode&0o777 != fileMode
	t.mu.Lock()
	t.checked.file, t.fix.file = true, t.fix.file || fix
	t.mu.Unlock()
	if fix {
		if err := unix.Fchmod(fd, fileMode); err != nil {
			_ = unix.Close(fd)
			return p.fault("chmod", err)
		}
	}
	return nil
}

func (p *place) fault(op string, err error) error {
	return &os.PathError{Op: op, Path: quote(p.entry), Err: err}
}

func writeAll(fd int, p *place, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return p.fault("write", err)
		}
		b = b[n:]
	}
	return nil
}

func closeFile(fd int, p *place) error {
	if err := unix.Close(fd); err != nil && !errors.Is(err, unix.EINTR) {
		return p.fault("close", err)
	}
	return nil
}

// openFile opens a file that was extracted, to read it.
func (t *tree) openFile(p place) (*os.File, error) {
	dirfd, err := t.acquire(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.release(p.dir)
	fd, err := retry(func() (int, error) {
		return unix.Openat(dirfd, p.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, p.fault("open", err)
	}
	return os.NewFile(uintptr(fd), p.name), nil
}

func (t *tree) remove(p place) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.unlink(p); err != nil {
		return p.fault("remove", err)
	}
	return nil
}

func (t *tree) unlink(p place) error {
	dirfd, err := t.acquireLocked(p.dir)
	if err != nil {
		return err
	}
	defer func() { p.dir.refs-- }()
	return retry0(func() error { return unix.Unlinkat(dirfd, p.name, 0) })
}
