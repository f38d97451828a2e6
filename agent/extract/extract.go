package extract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Extractor unpacks the archives of one run below one root. Limits sum over
// all of them. It is for one goroutine at a time.
type Extractor struct {
	root   *os.Root
	policy wire.ExtractPolicy
	tree   *tree

	mu     sync.Mutex // guards report against the zip's workers
	report wire.Extraction

	// What the policy's limits have left of them.
	entries  int64
	implicit int64
	bytes    int64
	streamed int64

	ring ring
}

// New returns an extractor that writes below root, the run's work directory,
// which stays the caller's to close.
func New(root *os.Root, policy wire.ExtractPolicy) *Extractor {
	return &Extractor{root: root, policy: policy}
}

// Archive unpacks one archive into the directory into, which is made if it is
// missing. input names it in refusals. The format is told by content.
//
// An answer about the artifact is a *RefusalError; everything else is a
// failure of ours: no space (ENOSPC), I/O, ctx. Either way what was written so
// far stays where it is, inside the root, and the extractor must not be used
// again but for its Report.
func (x *Extractor) Archive(ctx context.Context, input string, src *os.File, into wire.RelPath, nested []wire.Nested) error {
	if x.tree == nil {
		x.tree = newTree(x)
	}
	if err := x.tree.open(); err != nil {
		return fmt.Errorf("opening the work directory: %w", err)
	}
	defer x.tree.close()
	err := x.archive(ctx, src, into, nested)
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		refusal.Input = quote(input)
		return refusal
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return fmt.Errorf("unpacking %s: %w", quote(input), cause)
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", quote(input), err)
	}
	return nil
}

func (x *Extractor) archive(ctx context.Context, src *os.File, into wire.RelPath, nested []wire.Nested) error {
	inner, err := x.unpack(ctx, src, into, nested, true)
	if err != nil {
		return err
	}
	for i, n := range nested {
		if err := x.unpackNested(ctx, n, into, inner[i]); err != nil {
			return err
		}
	}
	return nil
}

// unpack unpacks one level: the files first, the symbolic links after them.
func (x *Extractor) unpack(ctx context.Context, src *os.File, into wire.RelPath, nested []wire.Nested, outer bool) ([][]*place, error) {
	base, err := x.tree.base(into)
	if err != nil {
		return nil, err
	}
	s := &sink{x: x, base: base, dirs: map[string]*dir{"": base}, outer: outer, nested: nested, inner: make([][]*place, len(nested))}
	before := x.entries
	if err := readArchive(ctx, s, src); err != nil {
		return nil, err
	}
	if x.entries == before {
		return nil, refuse("", RuleEmpty, "the archive has no entries")
	}
	if err := x.tree.plantSymlinks(ctx); err != nil {
		return nil, err
	}
	x.count(func(r *wire.Extraction) { r.Archives++ })
	return s.inner, nil
}

// unpackNested unpacks the inner archives that one wire.Nested asks for, and
// removes each once all that was in it stands unpacked.
func (x *Extractor) unpackNested(ctx context.Context, n wire.Nested, into wire.RelPath, found []*place) error {
	if len(found) == 0 && n.Optional {
		return nil
	}
	if len(found) == 0 {
		return refuse("", RuleNestedMissing, fmt.Sprintf("no member %s", quote(n.Member)))
	}
	target := n.Into
	if !into.IsRoot() && !n.Into.IsRoot() {
		joined, err := wire.ParseRelPath(into.String() + "/" + n.Into.String())
		if err != nil {
			return fmt.Errorf("joining the nested directory: %w", err)
		}
		target = joined
	} else if n.Into.IsRoot() {
		target = into
	}
	for _, p := range found {
		if err := x.unpackInner(ctx, p, target); err != nil {
			return err
		}
	}
	return nil
}

func (x *Extractor) unpackInner(ctx context.Context, p *place, target wire.RelPath) error {
	f, err := x.tree.openFile(*p)
	if err != nil {
		return fmt.Errorf("opening the nested archive: %w", err)
	}
	defer f.Close()
	if _, err := x.unpack(ctx, f, target, nil, false); err != nil {
		var refusal *RefusalError
		if errors.As(err, &refusal) {
			refusal.Detail = trim(fmt.Sprintf("%s (in %s)", refusal.Detail, quote(p.entry)))
		}
		return err
	}
	return x.tree.remove(*p)
}

// Report returns what was unpacked so far and every deviation.
func (x *Extractor) Report() wire.Extraction {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.report
	r.Notes = append([]wire.Note{}, r.Notes...)
	return r
}
