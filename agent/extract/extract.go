package extract

import (
	"context"
	"errors"
	"os"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Extractor unpacks the archives of one run below one root. Limits sum over
// all of them. It is for one goroutine at a time.
type Extractor struct {
	root   *os.Root
	policy wire.ExtractPolicy
	report wire.Extraction
}

// New returns an extractor that writes below root, the run's work directory,
// which stays the caller's to close.
func New(root *os.Root, policy wire.ExtractPolicy) *Extractor {
	return &Extractor{root: root, policy: policy}
}

// RefusalError is an answer about the artifact: what in it broke which rule.
type RefusalError struct{ wire.Refusal }

// Error names the input, the entry, the rule and what was found.
func (e *RefusalError) Error() string {
	if e.Entry == "" {
		return "archive " + e.Input + " refused: " + e.Rule + ": " + e.Detail
	}
	return "archive " + e.Input + " refused: entry " + e.Entry + ": " + e.Rule + ": " + e.Detail
}

// Archive unpacks one archive into the directory into, which is made if it is
// missing. input names it in refusals. An answer about the artifact is a
// *RefusalError; everything else is a failure of ours: no space, I/O, ctx.
func (x *Extractor) Archive(ctx context.Context, input string, src *os.File, into wire.RelPath, nested []wire.Nested) error {
	return errors.ErrUnsupported
}

// Report returns what was unpacked so far and every deviation.
func (x *Extractor) Report() wire.Extraction { return x.report }
