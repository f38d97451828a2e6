package identity

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is where workers hold their files.
type Place struct {
	// Dir is a directory of this user's alone. It is made if it is missing, but
	// nothing above it is.
	Dir string
	// Reach names what these workers sweep. An id is taken over only where it
	// is the same: elsewhere nothing of the dead worker's would be found.
	Reach string
}

// Take gives this process the id of a worker that was killed, or a new one. The
// ids of all other killed workers come with it.
func (p Place) Take() (*Worker, error) {
	if err := os.Mkdir(p.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the directory: %w", err)
	}
	tag, err := p.tag()
	if err != nil {
		return nil, err
	}
	return p.take(tag)
}

func (p Place) take(tag string) (*Worker, error) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing the workers: %w", err)
	}
	w := &Worker{}
	for _, e := range entries {
		id, is := strings.CutPrefix(e.Name(), tag+".")
		if !is || !validID(id) {
			continue
		}
		path := filepath.Join(p.Dir, e.Name())
		if f := lockFree(path); f != nil {
			w.held = append(w.held, held{id: id, file: f, path: path, owed: true})
		}
	}
	if len(w.held) > 0 {
		return w, nil
	}
	h, err := p.hold(tag)
	if err != nil {
		return nil, fmt.Errorf("holding a file: %w", err)
	}
	w.held = append(w.held, h)
	return w, nil
}

// tag begins the names of the files that this process looks at. It stands for
// all that a lock depends on: the running kernel, the host or container by its
// name, and the directory itself, which a copy is not.
func (p Place) tag() (string, error) {
	st, err := p.look()
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("telling this boot from others: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("telling this host from others: %w", err)
	}
	return tagOf(string(boot), host, st, p.Reach), nil
}

func tagOf(boot, host string, dir unix.Statx_t, reach string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d.%09d %q", boot, host, dir.Ino, dir.Btime.Sec, dir.Btime.Nsec, reach))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// look looks at the directory, and refuses one in which others could hold or
// remove files.
func (p Place) look() (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p.Dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	switch {
	case err != nil:
		return st, &fs.PathError{Op: "stat", Path: p.Dir, Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return st, errors.New("it is no directory")
	case int(st.Uid) != os.Geteuid():
		return st, fmt.Errorf("it belongs to uid %d, and this is uid %d", st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return st, fmt.Errorf("others may write it, its mode is %04o", st.Mode&0o7777)
	}
	return st, nil
}

func validID(id string) bool {
	random, is := strings.CutPrefix(id, Prefix)
	return is && len(random) == randomLength && strings.Trim(random, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// hold makes a file under a new id. Nobody sees it before it is locked, or it
// would be a killed worker's for a moment.
func (p Place) hold(tag string) (held, error) {
	id := newID()
	draft := filepath.Join(p.Dir, "."+id)
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return held{}, err
	}
	path := filepath.Join(p.Dir, tag+"."+id)
	err = flock(f)
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return held{}, errors.Join(err, os.Remove(draft), f.Close())
	}
	return held{id: id, file: f, path: path}, nil
}

// lockFree locks a file that nobody holds; nil is one that somebody does, that
// is gone, or that is no worker's.
func lockFree(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if flock(f) != nil || !isWorkers(f) {
		_ = f.Close()
		return nil
	}
	return f
}

// isWorkers says whether a file that was just locked is a killed worker's. One
// without a name was given up between its opening and its lock.
func isWorkers(f *os.File) bool {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Nlink > 0
}

func flock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}
