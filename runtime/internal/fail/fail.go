// Package fail has what runtimes share in reporting a run that has no answer.
package fail

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Of is err as a *sandbox.Error: the one in its tree, or else a failure of our
// own.
func Of(err error) *sandbox.Error {
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return e
	}
	return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Err: err}
}

// Named is e with the names of its runtime and its run.
func Named(e *sandbox.Error, runtime string, label wire.Label) *sandbox.Error {
	e.Runtime, e.Run = runtime, label.String()
	return e
}

// Left is the fault of a run that left something behind, which err tells: e
// with err added, or a new one. Without an err it is e.
func Left(e *sandbox.Error, err error) *sandbox.Error {
	if err == nil {
		return e
	}
	left, is := err.(*sandbox.Error) //nolint:errorlint // of one that is joined with others the others would be lost
	switch {
	case e == nil && is:
		return left
	case e == nil:
		e = &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "cleaning up"}
	case is:
		// One line says who and when once.
		err = fmt.Errorf("%s: %w", left.Detail, left.Err)
		if e.Err != nil {
			e.Err = fmt.Errorf("%w; %w", e.Err, err)
			return e
		}
	}
	e.Err = errors.Join(e.Err, err)
	return e
}

// Signal is a signal's name, such as "SIGKILL".
func Signal(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
