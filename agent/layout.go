package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The agent's own places in the work directory (wire.Reserved).
const (
	inputsDir = "in"
	tempDir   = "tmp"
)

// fetch gets every input, and then removes what the scanner must not find:
// the manifest with the seal's key in it, and the inputs. It reports whether
// the run goes on.
func (r *run) fetch(ctx context.Context) bool {
	began := time.Now()
	within, done := r.fetchClock(ctx)
	defer done()
	err := r.getInputs(within)
	if err == nil {
		err = r.removeBundle()
	}
	r.result.Phases.FetchMS = time.Since(began).Milliseconds()
	if err != nil {
		r.failed(wire.StageFetch, err)
		if errors.Is(context.Cause(within), errFetchTimedOut) {
			r.result.Failure.Code = wire.CodeTimeout
		}
	}
	return err == nil
}

// errFetchTimedOut ends a fetch that takes longer than the manifest allows.
var errFetchTimedOut = errors.New("the time for the fetch is used up")

// fetchClock bounds the fetch. It counts from the agent's own start, since
// what a manifest took to come is no less of a worker's wait.
func (r *run) fetchClock(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.manifest.FetchMS == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, r.began.Add(r.manifest.FetchTimeout()), errFetchTimedOut)
}

func (r *run) getInputs(ctx context.Context) error {
	r.inputs = make([]*os.File, len(r.manifest.Entries))
	for i, e := range r.manifest.Entries {
		if e.URL == "" {
			continue
		}
		f, err := r.client.Open(ctx, e.URL, e.Size, func() (*os.File, error) { return r.spool(i) })
		if err != nil {
			return fmt.Errorf("fetching entries[%d]: %w", i, err)
		}
		r.inputs[i] = f
		// It is of no more use here, and of some to a scanner.
		r.manifest.Entries[i].URL = ""
	}
	return nil
}

// spool makes a file without a name: its space is free again as soon as it is
// closed, whatever happens.
func (r *run) spool(i int) (*os.File, error) {
	if err := r.root.MkdirAll(inputsDir, 0o700); err != nil {
		return nil, err
	}
	name := path.Join(inputsDir, "spool-"+strconv.Itoa(i))
	f, err := r.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := r.root.Remove(name); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeBundle takes the manifest and the inputs out of the scanner's reach.
// A local runtime sees by the missing manifest that the bundle was fetched.
func (r *run) removeBundle() error {
	for _, root := range []*os.Root{r.root, r.bundle} {
		if root == nil {
			continue
		}
		if err := root.RemoveAll(inputsDir); err != nil {
			return fmt.Errorf("removing the inputs: %w", err)
		}
	}
	return r.removeManifest()
}

func (r *run) removeManifest() error {
	name, ok := fetch.FilePath(r.in)
	if !ok {
		return nil
	}
	if err := r.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the manifest: %w", err)
	}
	return nil
}

// remove removes a file of the bundle.
func (r *run) remove(name string) error {
	if r.bundle == nil {
		return os.Remove(name)
	}
	return r.bundle.Remove(filepath.Base(name))
}

// layOut writes the entries into the work directory in their order. It
// reports whether the run goes on.
func (r *run) layOut(ctx context.Context, c *clock) bool {
	ctx, done := c.run(ctx)
	defer func() { r.result.Phases.ExtractMS = done().Milliseconds() }()
	x := extract.New(r.root, r.manifest.Policy)
	var laid wire.Extraction
	err := r.makeTemp()
	for i := 0; i < len(r.manifest.Entries) && err == nil; i++ {
		if err = context.Cause(ctx); err == nil {
			err = r.entry(ctx, x, i, &laid)
		}
	}
	r.result.Extraction = sum(x.Report(), laid)
	if err != nil {
		r.stopped(ctx, wire.StageExtract, err)
	}
	return err == nil
}

// makeTemp makes the directory that /tmp of a room leads to. It may be there,
// and somebody else's who lets everybody write: a pod can have it mounted.
func (r *run) makeTemp() error {
	if err := r.root.MkdirAll(tempDir, 0o700); err != nil {
		return fmt.Errorf("making the temporary directory: %w", err)
	}
	err := r.root.Chmod(tempDir, 0o700)
	if info, statErr := r.root.Lstat(tempDir); errors.Is(err, fs.ErrPermission) && statErr == nil && info.Mode().Perm()&0o002 != 0 {
		return nil
	}
	return err
}

func (r *run) entry(ctx context.Context, x *extract.Extractor, i int, laid *wire.Extraction) error {
	e, src := r.manifest.Entries[i], r.inputs[i]
	r.inputs[i] = nil
	if src == nil && e.Kind == wire.Archive {
		var err error
		if src, err = r.spool(i); err != nil {
			return fmt.Errorf("writing entry %q: %w", e.Path, err)
		}
		if _, err := src.WriteAt(e.Inline, 0); err != nil {
			src.Close()
			return fmt.Errorf("writing entry %q: %w", e.Path, err)
		}
		if err := r.root.Remove(inputsDir); err != nil {
			src.Close()
			return fmt.Errorf("writing entry %q: %w", e.Path, err)
		}
	}
	if src != nil {
		defer src.Close()
	}
	if e.Kind == wire.Archive {
		return x.Archive(ctx, e.Path.String(), src, e.Path, e.Nested)
	}
	if src == nil {
		return r.file(ctx, e, bytes.NewReader(e.Inline), laid)
	}
	return r.file(ctx, e, src, laid)
}

// file writes one plain entry. What an archive before it has put there gives
// way, for the manifest's word is the worker's; it is counted and named, since
// it is a name that the artifact tried to take.
func (r *run) file(ctx context.Context, e wire.Entry, src io.Reader, laid *wire.Extraction) error {
	name := e.Path.String()
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return blocked(e, err)
	}
	if _, err := r.root.Lstat(name); err == nil {
		laid.Replaced++
		laid.Notes = append(laid.Notes, wire.Note{
			Entry: name, Rule: ruleEntryTaken, Action: "replaced", Detail: "an input of the run has the name",
		})
		if err := r.root.RemoveAll(name); err != nil {
			return fmt.Errorf("writing entry %q: %w", name, err)
		}
	}
	f, err := r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return blocked(e, err)
	}
	n, err := io.Copy(f, &stoppable{ctx, src})
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing entry %q: %w", name, err)
	}
	if n != e.Size {
		return fmt.Errorf("writing entry %q: %d bytes, want exactly %d", name, n, e.Size)
	}
	return nil
}

// The rules by which an archive's entry and an input of the run may clash.
const (
	ruleEntryTaken   = "entry-taken"
	ruleEntryBlocked = "entry-blocked"
)

// blocked tells an archive that stands in the way of an input, which is an
// answer about the artifact, from a failure of ours.
func blocked(e wire.Entry, err error) error {
	for _, rule := range []error{unix.ENOTDIR, unix.EEXIST, unix.ELOOP, unix.EISDIR} {
		if errors.Is(err, rule) {
			return &extract.RefusalError{Refusal: wire.Refusal{
				Input: e.Path.String(), Rule: ruleEntryBlocked,
				Detail: "an archive has put something in the way of an input of the run",
			}}
		}
	}
	return fmt.Errorf("writing entry %q: %w", e.Path, err)
}

// stoppable is a reader that ends with its context.
type stoppable struct {
	ctx context.Context //nolint:containedctx // it lives for one copy
	r   io.Reader
}

func (s *stoppable) Read(b []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

func sum(x, laid wire.Extraction) wire.Extraction {
	x.Replaced += laid.Replaced
	x.Notes = append(append([]wire.Note{}, x.Notes...), laid.Notes...)
	x.Notes = x.Notes[:min(len(x.Notes), wire.NoteCountCap)]
	return x
}

// emptyWorkDir gives back the space that a scanner has used up.
func (r *run) emptyWorkDir() {
	dir, err := r.root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			_ = r.root.RemoveAll(name)
		}
		if err != nil {
			return
		}
	}
}
