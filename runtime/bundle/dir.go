package bundle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The names in a run directory, below the work directory.
const (
	manifestName = "manifest.json"
	resultName   = "out.tar"
)

// Dir is the run directory of one run:
//
//	<parent>/batlehub-sbx~<worker>~<job>~<scanner>~<attempt>~<random>/
//	    owner.json    whose it is and until when, for the sweep
//	    work/         what the agent sees: manifest.json, in/artifact, out.tar
//	    in/           the inputs, where they are kept apart
//
// The outer directory is the host's alone and carries a lock that ends with
// its owner. Only work is ever shown to a sandbox, so nothing in there can
// change or hold the lock.
type Dir struct {
	store   *Store
	request Request
	path    string
	made    bool
	lock    *os.File
	work    *os.Root
	// inputs is where the inputs go, by names below it: work or, where they
	// are kept apart, the run directory.
	inputs *os.Root
	once   sync.Once
	err    error
}

// Path is the run directory itself.
func (d *Dir) Path() string { return d.path }

// Work is the work directory, as the host sees it.
func (d *Dir) Work() string { return filepath.Join(d.path, "work") }

// Inputs is the directory of the inputs that are kept apart, as the host sees
// it. Everybody may read what is in there, and its owner alone may change it.
func (d *Dir) Inputs() string { return filepath.Join(d.path, "in") }

// In is the URL of the manifest, as the agent sees it.
func (d *Dir) In() string { return fileURL(d.inside(), manifestName) }

// Out is the URL of the result, as the agent sees it.
func (d *Dir) Out() string { return fileURL(d.inside(), resultName) }

func (d *Dir) inside() string {
	if d.request.Inside != "" {
		return d.request.Inside
	}
	return d.Work()
}

// Fetched says whether the agent has fetched its bundle: it removes the
// manifest once it has.
func (d *Dir) Fetched() bool {
	_, err := d.work.Lstat(manifestName)
	return errors.Is(err, fs.ErrNotExist)
}

// Close removes the run directory and looks that it is gone. No process of the
// run may be left by then.
func (d *Dir) Close() error {
	d.once.Do(func() {
		if d.path == "" {
			return
		}
		if d.inputs != nil && d.inputs != d.work {
			d.inputs.Close()
		}
		if d.work != nil {
			d.work.Close()
			d.store.open.Add(-1)
		}
		if d.made {
			d.err = d.store.remove(d.path)
		}
		if d.lock != nil {
			d.lock.Close()
		}
		if d.err == nil && !d.store.config.Unwatched {
			d.store.janitor.Done(d.path)
		}
	})
	return d.err
}

// remove removes a run directory once its run is over.
func (s *Store) remove(dir string) error {
	if s.config.Release != nil {
		if err := s.config.Release(dir); err != nil {
			return err
		}
	}
	return rmtree.Remove(dir)
}

// make makes the directories, locked and known to the janitor.
func (d *Dir) make() error {
	s := d.store
	if err := s.makeParent(); err != nil {
		return err
	}
	d.path = filepath.Join(s.config.Parent, dirName(d.request.Manifest.Label))
	if !s.config.Unwatched {
		if err := s.janitor.Add(d.path); err != nil {
			return err
		}
	}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return err
	}
	d.made = true
	// Here as below, whatever the umask says.
	err := os.Chmod(d.path, 0o700)
	if err != nil {
		return err
	}
	if d.lock, err = lockDir(d.path); err != nil {
		return err
	}
	if err := writeOwner(d.path, d.request); err != nil {
		return err
	}
	if err := os.Mkdir(d.Work(), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(d.Work(), 0o700); err != nil {
		return err
	}
	if s.config.Prepare != nil {
		if err := s.config.Prepare(d.Work()); err != nil {
			return err
		}
	}
	if d.work, err = os.OpenRoot(d.Work()); err != nil {
		return err
	}
	s.open.Add(1)
	if d.inputs = d.work; d.request.Apart != "" {
		if d.inputs, err = d.makeInputs(); err != nil {
			return err
		}
	}
	return d.admit()
}

// makeInputs makes the directory of inputs that are kept apart.
func (d *Dir) makeInputs() (*os.Root, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	if err := root.Mkdir("in", 0o755); err != nil {
		root.Close()
		return nil, err
	}
	return root, root.Chmod("in", 0o755)
}

// makeParent makes the parent if it is missing, searchable for everybody
// whatever the umask says. What is above it is not made: a path with a slip in
// it would go unnoticed, and what was made stay behind.
func (s *Store) makeParent() error {
	if _, err := os.Stat(s.config.Parent); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(s.config.Parent, 0o711); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(s.config.Parent, 0o711)
}

// admit lets the uid that the run will have through to the work directory. The
// outer directory stays this process's own: its group may pass and no more.
func (d *Dir) admit() error {
	c := d.store.config
	if c.UID == 0 {
		return nil
	}
	mode := fs.FileMode(0o710)
	if c.Passable {
		mode = 0o711
	} else if err := d.lock.Chown(0, c.GID); err != nil {
		return err
	}
	if err := d.lock.Chmod(mode); err != nil {
		return err
	}
	return d.work.Chown(".", c.UID, c.GID)
}

// fill writes the manifest and the artifact.
func (d *Dir) fill(ctx context.Context, document []byte) error {
	inputs := 0
	m := d.request.Manifest
	for _, e := range m.Entries {
		if e.URL == "" {
			continue
		}
		if inputs == 0 && d.inputs == d.work {
			if err := d.work.Mkdir("in", 0o700); err != nil {
				return err
			}
			if err := d.work.Chmod("in", 0o700); err != nil {
				return err
			}
			if err := d.own("in"); err != nil {
				return err
			}
		}
		if err := d.copyArtifact(ctx, inputName(inputs)); err != nil {
			return fmt.Errorf("copying the artifact: %w", err)
		}
		inputs++
	}
	if d.request.Inside == "" {
		if err := d.relocate(&document); err != nil {
			return err
		}
	}
	return d.write(manifestName, document)
}

// relocate writes the manifest again with the artifact where the host sees it.
func (d *Dir) relocate(document *[]byte) error {
	m := d.request.Manifest
	inputs := 0
	for i := range m.Entries {
		if m.Entries[i].URL != "" {
			m.Entries[i].URL = fileURL(d.Work(), inputName(inputs))
			inputs++
		}
	}
	b, err := m.Encode()
	*document = b
	return err
}

func (d *Dir) write(name string, b []byte) error {
	f, err := d.create(d.work, name)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// create makes a new file below root: in the work directory owned by the run,
// and anywhere else this process's own, which everybody may read.
func (d *Dir) create(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if root != d.work {
		mode = 0o444
	}
	err = f.Chmod(mode)
	if c := d.store.config; err == nil && root == d.work && c.UID != 0 {
		err = f.Chown(c.UID, c.GID)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *Dir) own(name string) error {
	c := d.store.config
	if c.UID == 0 {
		return nil
	}
	return d.work.Chown(name, c.UID, c.GID)
}

// separator parts the label's pieces; no label part can hold it.
const separator = "~"

const dirPrefix = "batlehub-sbx" + separator

// dirName is a name that says whose the run is and that is never used again.
func dirName(l wire.Label) string {
	return dirPrefix + strings.Join([]string{
		l.Worker, l.Job, l.Scanner, fmt.Sprint(l.Attempt), strings.ToLower(rand.Text()[:16]),
	}, separator)
}

// lockDir opens the directory at path and locks it. The lock belongs to the
// open file and ends with the process, however that ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}
