package collect

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Place is a file in a directory that a scanner can write to as well. The
// directory is opened before the scanner starts and never looked up again.
type Place struct {
	root *os.Root
	dir  *os.File
	name string
}

// OpenPlace opens the directory of path.
func OpenPlace(path string) (*Place, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlace, err)
	}
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("%w: %w", ErrPlace, err)
	}
	return &Place{root: root, dir: dir, name: filepath.Base(path)}, nil
}

// Close closes the directory.
func (p *Place) Close() { _, _ = p.dir.Close(), p.root.Close() }

// Write puts b at the place. Whatever stands there is not opened or followed:
// it is moved out of the way, which takes the same time for a file, a FIFO
// and a directory full of things. What is written stands under another name
// until it is complete.
func (p *Place) Write(b []byte) error {
	fresh := "." + p.name + "." + random()
	err := p.create(fresh, b)
	if errors.Is(err, unix.EACCES) && p.reopen() == nil {
		err = p.create(fresh, b)
	}
	if err != nil {
		_ = p.root.Remove(fresh)
		return fmt.Errorf("writing %s: %w", p.name, err)
	}
	if err := p.move(fresh, p.name); err == nil {
		return nil
	}
	// A directory stands there.
	if err := p.move(p.name, "."+p.name+"."+random()); err != nil {
		_ = p.root.Remove(fresh)
		return fmt.Errorf("clearing %s: %w", p.name, err)
	}
	if err := p.move(fresh, p.name); err != nil {
		_ = p.root.Remove(fresh)
		return fmt.Errorf("placing %s: %w", p.name, err)
	}
	return nil
}

// reopen gives the directory's owner its rights back, which a scanner of the
// same uid can have taken.
func (p *Place) reopen() error {
	info, err := p.dir.Stat()
	if err != nil {
		return err
	}
	return p.dir.Chmod(info.Mode().Perm() | 0o700)
}

func (p *Place) create(name string, b []byte) error {
	// The worker may be of another uid than this one is outside, in a user
	// namespace of an engine's. Who comes near is the directory's business.
	f, err := p.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

func (p *Place) move(from, to string) error {
	fd := int(p.dir.Fd())
	return unix.Renameat(fd, from, fd, to)
}

func random() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
