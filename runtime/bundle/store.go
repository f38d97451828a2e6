package bundle

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/janitor"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Config configures a Store.
type Config struct {
	// Runtime is the name that errors carry.
	Runtime string
	// Parent is the directory in which run directories are made; empty means
	// the system's temporary directory. It is made if it is missing, but
	// nothing above it is.
	Parent string
	// UID and GID are whom a run's files belong to; 0 leaves them to this
	// process, which has to be root otherwise.
	UID, GID int
	// Passable lets anybody who knows its name through a run directory, for
	// the root of a user namespace, who is neither UID nor in GID.
	Passable bool
	// Unwatched has no janitor started, which would remove a killed worker's
	// directories: for runs that outlive their worker and are found by them.
	Unwatched bool
	// Prepare, if not nil, is told of each work directory, absolute, when it
	// is made and empty, such as to mount something there.
	Prepare func(work string) error
	// Release, if not nil, is told of each run directory, absolute, before it
	// is removed, by its owner or by a sweep. It ends what is left of the run.
	// A directory for which it fails stays.
	Release func(dir string) error
}

// Store makes run directories, and removes those that others left.
type Store struct {
	config  Config
	janitor janitor.Janitor
	open    atomic.Int64
}

// NewStore returns a store. It touches nothing yet.
func NewStore(c Config) *Store {
	if c.Parent == "" {
		c.Parent = os.TempDir()
	}
	if abs, err := filepath.Abs(c.Parent); err == nil {
		c.Parent = abs
	}
	return &Store{config: c}
}

// Parent is the directory in which run directories are made.
func (s *Store) Parent() string { return s.config.Parent }

// Open counts the run directories that are in use.
func (s *Store) Open() int { return int(s.open.Load()) }

// Close ends the store. Directories still in use are removed under their runs.
func (s *Store) Close() error {
	if err := s.janitor.Close(); err != nil {
		return fmt.Errorf("removing run directories below %s: %w", s.config.Parent, err)
	}
	return nil
}

// Request is what a run directory, or a run's keys, are made for.
type Request struct {
	// Manifest says what the agent is told. Its artifact entries get their
	// URL and size here.
	Manifest *wire.Manifest
	// Artifact is what those entries ask for.
	Artifact sandbox.Artifact
	// Inside is where the agent sees the work directory, such as "/work";
	// empty means that it sees what the host sees. A Hop has no use for it.
	Inside string
	// Apart is where the agent sees its inputs, if they are to be beside the
	// work directory (see Dir.Inputs) and not in it.
	Apart string
	// Deadline is when the run will be over at the latest; a sweep counts a
	// directory's age from it.
	Deadline time.Time
	// Start bounds the time until the bundle is fetched, and with the
	// manifest's timeout how long a Hop's URLs live; a Store has no use for
	// it. 0 or less means DefaultStartTimeout.
	Start time.Duration
}

// Create makes the run directory of a request, filled and locked. An error is
// a *sandbox.Error, and leaves nothing behind.
func (s *Store) Create(ctx context.Context, r Request) (*Dir, error) {
	// Where the host's own names are used the final place is not known yet,
	// but its form is.
	document, err := r.prepare(func(n int) string {
		if r.Apart != "" {
			return fileURL(r.Apart, path.Base(inputName(n)))
		}
		return fileURL(r.Inside, inputName(n))
	})
	if err != nil {
		return nil, fail(s.config.Runtime, r, sandbox.Refused, sandbox.CodeConfig, "", err)
	}
	d := &Dir{store: s, request: r}
	if err := d.make(); err != nil {
		return nil, s.discard(d, s.classify(r, "making the run directory", err))
	}
	if err := d.fill(ctx, document); err != nil {
		return nil, s.discard(d, s.classify(r, "filling the run directory", err))
	}
	return d, nil
}

// Bare makes the run directory of a run whose bundle is elsewhere, locked and
// with nothing in it. An error is a *sandbox.Error, and leaves nothing behind.
func (s *Store) Bare(label wire.Label, deadline time.Time) (*Dir, error) {
	r := Request{Manifest: &wire.Manifest{Label: label}, Deadline: deadline}
	d := &Dir{store: s, request: r}
	if err := d.make(); err != nil {
		return nil, s.discard(d, s.classify(r, "making the run directory", err))
	}
	return d, nil
}

// prepare resolves the manifest's artifact entries, on a copy: place is the URL
// of the nth of them. It returns the encoded manifest, so that a bad one is
// refused before anything is made for it.
func (r *Request) prepare(place func(n int) string) ([]byte, error) {
	m := *r.Manifest
	m.Entries = append([]wire.Entry{}, m.Entries...)
	inputs := 0
	for i := range m.Entries {
		e := &m.Entries[i]
		switch {
		case e.URL == "":
			continue
		case e.URL != wire.ArtifactURL:
			return nil, fmt.Errorf("entries[%d]: a bundle's entry is inline or the artifact, not %.64q", i, e.URL)
		case r.Artifact == nil:
			return nil, fmt.Errorf("entries[%d]: the bundle has no artifact", i)
		}
		e.Size = r.Artifact.Size()
		e.URL = place(inputs)
		inputs++
	}
	r.Manifest = &m
	return m.Encode()
}

// inputName is the name of the artifact's nth copy below the work directory.
// Each entry has its own, because an agent removes what it has unpacked.
func inputName(n int) string {
	if n == 0 {
		return "in/artifact"
	}
	return fmt.Sprintf("in/artifact-%d", n+1)
}

func fileURL(dir, name string) string {
	if dir == "" {
		dir = "/"
	}
	return (&url.URL{Scheme: "file", Path: filepath.Join(dir, name)}).String()
}

// discard removes what a failed Create has made.
func (s *Store) discard(d *Dir, cause *sandbox.Error) error {
	if err := d.Close(); err != nil {
		cause.Err = fmt.Errorf("%w (and %w)", cause.Err, err)
	}
	return cause
}
