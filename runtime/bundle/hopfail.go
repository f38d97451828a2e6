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
	case errors.Is(err, storage.ErrDenied), errors.Is(err, storage.ErrNotFound):
		// ErrNotFound of a Put is a bucket that is not there.
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
	case errors.Is(err, storage.ErrNoSpace):
		e.Code = sandbox.CodeNoSpace
		e.Hint = "free space where the storage backend keeps its objects"
	case errors.Is(err, storage.ErrUnavailable):
		e.Hint = "the storage backend has to answer; the run can be repeated"
	}
}

func put(ctx context.Context, b storage.Backend, key string, document []byte) error {
	return b.Put(ctx, key, bytes.NewReader(document), int64(len(document)))
}
