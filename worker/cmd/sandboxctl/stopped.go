package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// idlePatience and busyPatience are how long a command may take to end once a
// signal came: without anything to clean up, and with. The second is above what
// a runtime bounds its own clean-up by when nothing answers it any more, one
// after the other:
//
//	kubernetes  the pod 45 s, its keys beside it and once more 30 s, its job's artifact 30 s, once more at the runtime's end 30 s
//	oci         the container and its network 95 s, each of the engine's calls 15 s, then the keys 30 s and the rest as above
//	crun        the container 45 s
//	bwrap       the processes 5 s
//
// The sweep after a run without an answer (see lastSweep) ends with a signal.
// What still cleans up then is stuck. docs/operations/scan-worker.md has the
// number, which a service manager's own patience has to be above.
const (
	idlePatience = time.Second
	busyPatience = 200 * time.Second
)

// stoppedError is what is said of a command that a signal ended.
type stoppedError struct {
	// by is the signal's *signalError.
	by error
	// left is what could not be cleaned up, in words; empty if nothing is
	// known to be left.
	left string
}

func (e *stoppedError) Error() string {
	if e.left == "" {
		return e.by.Error()
	}
	return e.by.Error() + "; " + e.left
}

func (e *stoppedError) Unwrap() error { return e.by }

// stoppedBy is what is said of a command that ended with err after a signal:
// the signal, what err says beside it, and whose it is that is left.
func (a *app) stoppedBy(by *signalError, err error) error {
	if said, is := errors.AsType[*stoppedError](err); is {
		return said
	}
	rest := besides(err)
	if rest == nil {
		return &stoppedError{by: by}
	}
	return &stoppedError{by, a.withLeaves(rest.Error())}
}

// abandon is the error of a command that is not waited for any longer. Only a
// busy one leaves anything.
func (a *app) abandon(ctx context.Context, why string) error {
	stopped := &stoppedError{by: context.Cause(ctx)}
	if a.busy.Load() > 0 {
		stopped.left = a.withLeaves(why)
	}
	return stopped
}

func (a *app) withLeaves(why string) string {
	if leaves := a.leaves.Load(); leaves != nil {
		return why + "; " + *leaves
	}
	return why
}

// listed is an error of several, one after the other and each once: an error
// of a run prints as one line, and has nothing between its causes.
type listed struct{ error }

func (l listed) Error() string {
	var said []string
	for line := range strings.Lines(l.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.HasSuffix(s, line) }) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}

func (l listed) Unwrap() error { return l.error }

// besides is err without the end of a context that it tells of: what went wrong
// beside that, nil if nothing did.
func besides(err error) error {
	if _, is := err.(*signalError); is || err == context.Canceled { //nolint:errorlint // its wrappers are walked through here
		return nil
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case *sandbox.Error:
		rest := besides(e.Err)
		if rest == nil && (e.Err != nil || e.Kind == sandbox.Cancelled) {
			return nil //nolint:nilerr // that told of the end of the context alone
		}
		bare := *e
		if rest != nil {
			bare.Err = listed{rest}
		}
		return &bare
	case interface{ Unwrap() []error }:
		return besidesAll(err, e.Unwrap())
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if rest := besides(inner); inner != nil && !same(rest, inner) {
			return rest
		}
	}
	return err
}

// besidesAll is err, which joins all, with what is to be said of them alone.
func besidesAll(err error, all []error) error {
	var kept []error
	whole := true
	for _, e := range all {
		rest := besides(e)
		whole = whole && same(rest, e)
		if rest != nil {
			kept = append(kept, rest)
		}
	}
	if whole {
		return err
	}
	return errors.Join(kept...)
}

// same says whether two errors say the same: besides copies what it looks into.
func same(a, b error) bool {
	return a != nil && b != nil && a.Error() == b.Error()
}

// leavesOf says where what a session leaves would be, and who removes it.
func leavesOf(s *session) string {
	where := ""
	if s.Images != nil {
		var images []string
		for _, d := range s.scanners {
			images = append(images, d.Image)
		}
		where = fmt.Sprintf(" (%s)", s.Placement(images...))
	}
	return fmt.Sprintf("what is left of worker %s%s is swept by the next sandboxctl that starts here, or by age", s.worker.ID(), where)
}
