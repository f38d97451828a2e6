package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// classify tells whose fault it is that a bundle could not be stored.
func (h *Hop) classify(ctx context.Context, r Request, doing string, err error) *sandbox.Error {
	if ctx.Err() != nil {
		e := endError(ctx, false)
		e.Runtime, e.Run = h.config.Runtime, r.Manifest.Label.String()
		return e
	}
	e := fail(h.config.Runtime, r, sandbox.Crashed, sandbox.CodeInternal, doing, err)
	var size *SizeError
	switch {
	case errors.Is(err, errHopClosed), errors.Is(err, context.Canceled):
		e.Kind, e.Code = sandbox.Cancelled, ""
	case errors.As(err, &size), errors.Is(err, errArtifact):
		e.Code = sandbox.CodeFetch
	case errors.Is(err, errInFlight), errors.Is(err, errOtherArtifact):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
	default:
		h.classifyStorage(e, err)
	}
	return e
}

// classifyStorage tells what a backend's error asks for.
func (h *Hop) classifyStorage(e *sandbox.Error, err error) {
	switch {
	case errors.Is(err, storage.ErrUnsupported):
		e.Kind, e.Code, e.Err = sandbox.Refused, sandbox.CodeConfig, nil
		e.Detail = fmt.Sprintf("the %s runtime moves bundles through the storage backend and '%s' cannot presign a URL",
			h.config.Runtime, h.config.Leaf.Kind())
		e.Hint = "configure an S3-compatible backend, or name one in bundle_backend"
	case errors.Is(err, storage.ErrNotFound):
		// That of a Put is a bucket that is not there.
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		liftHint(e, "")
	default:
		storageFault(e)
	}
}

// storageFault completes e, whose Err may be a backend's, and says whether it
// was.
func storageFault(e *sandbox.Error) bool {
	switch {
	case errors.Is(e.Err, storage.ErrNoSpace):
		e.Code = sandbox.CodeNoSpace
		liftHint(e, "free space where the storage backend keeps its objects")
	case errors.Is(e.Err, storage.ErrUnavailable):
		e.Code = sandbox.CodeStorage
		liftHint(e, "look whether the storage endpoint answers this worker; the run can be repeated then")
	case errors.Is(e.Err, storage.ErrDenied):
		e.Code = sandbox.CodeStorage
		liftHint(e, "look at the credentials of the storage backend, and at this host's clock")
	default:
		return false
	}
	return true
}

// liftHint makes a backend's hint the error's, or other if it has none. Of what
// several calls came to in the same way, the first is enough.
func liftHint(e *sandbox.Error, other string) {
	e.Hint = other
	cause, ok := errors.AsType[*storage.Error](e.Err)
	if !ok {
		return
	}
	bare := *cause
	bare.Hint = ""
	e.Err = &bare
	if cause.Hint != "" {
		e.Hint = cause.Hint
	}
}

// fault is what a hop could not do for a run or, without a label, for itself.
// A nil err is none.
func (h *Hop) fault(run, doing string, err error) error {
	if err == nil {
		return nil
	}
	e := &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Runtime: h.config.Runtime, Run: run, Detail: doing, Err: err,
	}
	storageFault(e)
	return e
}

func put(ctx context.Context, b storage.Backend, key string, document []byte) error {
	return b.Put(ctx, key, bytes.NewReader(document), int64(len(document)))
}
