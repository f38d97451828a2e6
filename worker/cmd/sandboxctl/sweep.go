package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/internal/identity"
)

// workersDir is where the workers of this user hold their ids: it has to be
// there for every runtime, and no longer than the host's boot lasts.
func workersDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("batlehub-sandbox-workers-%d", os.Geteuid()))
}

// identify gives this process its id as a worker: a killed one's where there
// is one, so that what that left is swept at once. A host on which that can't
// be known works as well as any other.
func (a *app) identify(c *config.Config) *identity.Worker {
	if c.Worker.Sandbox.OrphanAfter() == 0 {
		return identity.New()
	}
	place := identity.Place{Dir: workersDir(), Reach: build.Reach(c)}
	w, err := place.Take()
	if err != nil {
		a.say("sandboxctl: warning: this worker's id can't be kept in %s: %s; what it leaves if it is killed is swept by age alone; set TMPDIR to a directory that this user can write", place.Dir, err)
		return identity.New()
	}
	return w
}

// sweep removes what workers that are gone have left. What can't be asked for
// or removed is a warning: it says nothing about the runs to come.
func (s *session) sweep(ctx context.Context) {
	after := s.config.Worker.Sandbox.OrphanAfter()
	if after == 0 {
		return
	}
	err := s.worker.Settle(func(worker string) error {
		swept, err := s.Sweep(ctx, sandbox.SweepPolicy{Worker: worker, OlderThan: after})
		for _, o := range swept.Removed {
			s.app.say("INFO sandbox: swept the %s %s of worker %s", o.Kind, o.Name, o.Worker)
		}
		return err
	})
	s.swept = err == nil
	if err != nil && ctx.Err() == nil && sandbox.CodeOf(err) != sandbox.CodeNoEngine {
		s.app.say("sandboxctl: warning: sweeping: %s", s.explain(err))
	}
}

// explain adds to an error what this configuration makes likely: that the name
// which nobody knows is the bucket's, put before the server's. A storage error
// has the resolver's words, and not its error.
func (s *session) explain(err error) error {
	b, is := s.config.BundleBackend()
	if err == nil || !is || b.PathStyle {
		return err
	}
	u, parseErr := url.Parse(build.StorageURL(b))
	if parseErr != nil || !strings.Contains(err.Error(), "lookup "+u.Hostname()) {
		return err
	}
	return fmt.Errorf("%w; %s is the bucket before the server's name: set [storage.backends.%s] path_style = true for a server that wants it in the path, as most but AWS do", err, u.Hostname(), b.Name)
}

// end ends the runtime, which waits for what it still cleans up, after a command
// that ended with err. The id of a worker that may have left something is the
// next start's to sweep.
func (s *session) end(err error) error {
	defer s.app.busy.Add(-1)
	left := s.left || unanswered(err) && !s.nothingLeft()
	closing := s.Close()
	s.canary.Close()
	s.worker.Close(left || closing != nil)
	if closing != nil {
		closing = fmt.Errorf("closing the runtime: %w", closing)
	}
	return errors.Join(s.explain(err), closing)
}

// unanswered says whether a command ended without the answer of a run, which may
// then be one that could not be removed.
func unanswered(err error) bool {
	status, answered := errors.AsType[quiet](err)
	return err != nil && !answered || status == ExitFailed
}

// lastSweep bounds the sweep at the end, for which somebody waits.
const lastSweep = 10 * time.Second

// nothingLeft sweeps what this worker itself has left, and nobody else's. Most runs
// without an answer leave nothing, such as one that ran out of time, and a sweep
// that ends well shows it. Who is told to stop does not wait for that, nor does
// anybody where already the first sweep came to nothing.
func (s *session) nothingLeft() bool {
	select {
	case <-s.stopped:
		return false
	default:
	}
	if s.config.Worker.Sandbox.OrphanAfter() == 0 {
		return true
	}
	if !s.swept {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSweep)
	defer cancel()
	swept := make(chan error, 1)
	go func() {
		_, err := s.Sweep(ctx, sandbox.SweepPolicy{Worker: s.worker.ID()})
		swept <- err
	}()
	// A runtime ends a container that it has begun to end whatever the context
	// says, in patience of its own, and is not waited for: what it leaves so is
	// the next start's.
	select {
	case err := <-swept:
		return err == nil
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}
