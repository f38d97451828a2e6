package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func fail(runtime string, r Request, kind sandbox.Kind, code sandbox.Code, detail string, err error) *sandbox.Error {
	e := &sandbox.Error{Kind: kind, Code: code, Runtime: runtime, Detail: detail, Err: err}
	if r.Manifest != nil {
		e.Run = r.Manifest.Label.String()
	}
	return e
}

// classify tells whose fault it is that a run directory could not be made.
func (s *Store) classify(r Request, doing string, err error) *sandbox.Error {
	e := fail(s.config.Runtime, r, sandbox.Crashed, sandbox.CodeInternal, doing, err)
	var size *SizeError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Code = sandbox.Cancelled, ""
	case IsNoSpace(err):
		e.Code = sandbox.CodeNoSpace
		e.Hint = fmt.Sprintf("free space below %s, or put run directories elsewhere", s.config.Parent)
	case errors.As(err, &size):
		e.Code = sandbox.CodeFetch
	case errors.Is(err, errArtifact):
		e.Code = sandbox.CodeFetch
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Hint = fmt.Sprintf("run directories are made below %s, which has to be a directory that this process may write to", s.config.Parent)
	}
	return e
}

// errArtifact is wrapped by what went wrong while the artifact was read.
var errArtifact = errors.New("reading the artifact")

// IsNoSpace reports whether err says that a disk or a quota is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
