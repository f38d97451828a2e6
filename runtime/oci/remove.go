package oci

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
)

// removalTime bounds the removal of one container or network, which goes on
// after the run's context has ended.
const removalTime = 15 * time.Second

// remove kills and removes a container by its name or id, with what the image
// called its volumes. That there is none is no error. The call outlives ctx: a
// removal that is broken off leaves a container's network without the container.
func (r *Runtime) remove(ctx context.Context, h *host, name string) error {
	args := []string{"rm", "-f", "-v"}
	if r.config.Engine == Podman {
		// Or it is asked to stop first, and waited for.
		args = append(args, "-t", "0", "-i")
	}
	args = append(args, name)
	deadline := time.Now().Add(r.removal)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := r.must(context.WithoutCancel(ctx), h, args...)
		switch {
		case err == nil, isGone(err):
			return nil
		case !isGoing(err) || time.Now().After(deadline):
			return err
		}
		<-again.C
	}
}

// isGone and isGoing tell what somebody else has removed, or just removes: the
// daemon itself, above all, after the end of a command that asked for it.
func isGone(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "no such container")
}

func isGoing(err error) bool {
	return strings.Contains(err.Error(), "is already in progress")
}

// must is a short call whose only answer is its status.
func (r *Runtime) must(ctx context.Context, h *host, args ...string) error {
	exit, err := r.engine.call(ctx, h.path, args...)
	return r.callError(exit, err, args)
}

func (r *Runtime) callError(exit process.Exit, err error, args []string) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", r.config.Engine, args[0], err)
	case exit.Status != 0:
		return &callError{engine: r.config.Engine, verb: args[0], exit: exit}
	}
	return nil
}

// callError is a short call that the engine refused.
type callError struct {
	engine, verb string
	exit         process.Exit
}

func (e *callError) Error() string {
	if e.exit.Killed {
		return fmt.Sprintf("%s %s did not answer in time", e.engine, e.verb)
	}
	return fmt.Sprintf("%s %s exited %d: %s", e.engine, e.verb, e.exit.Status, strings.Join(strings.Fields(tidy(e.exit.Stderr)), " "))
}

// vanish removes a run's container, whatever became of it, and looks that it
// is gone. It has a context of its own.
func (r *Runtime) vanish(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.removal)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		found, err := r.removeOwn(ctx, j)
		if err == nil && !found {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the container %s may be left, for a sweep to remove: %w", j.name(), err)
		case <-again.C:
		}
	}
}

// removeOwn removes the run's container, and says whether there was one.
func (r *Runtime) removeOwn(ctx context.Context, j *job) (found bool, err error) {
	containers, err := r.own(ctx, j, "ps", "-a")
	for _, id := range containers {
		err = errors.Join(err, r.remove(ctx, j.host, id))
	}
	return len(containers) > 0, err
}

// kill kills the run's container, and says whether there was one to kill.
func (r *Runtime) kill(ctx context.Context, j *job) bool {
	containers, err := r.own(ctx, j, "ps")
	killed := err == nil && len(containers) > 0
	for _, id := range containers {
		killed = r.must(ctx, j.host, "kill", "--signal", "KILL", id) == nil && killed
	}
	return killed
}

// running says whether a run's container runs.
func (r *Runtime) running(j *job) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	found, err := r.own(ctx, j, "ps")
	return err == nil && len(found) > 0
}

// own is what of a listing carries the run's name and its worker's label, by
// id or, podman's networks, by name. Names are made of a job, a scanner and an
// attempt, which another worker on the same engine may have as well: what is
// that one's is never touched. The filter is a regular expression over a name
// that docker begins with a slash.
func (r *Runtime) own(ctx context.Context, j *job, listing ...string) ([]string, error) {
	args := append(listing, "-q", "--no-trunc",
		"--filter", "name=^/?"+regexp.QuoteMeta(j.name())+"$", "--filter", "label="+LabelWorker+"="+j.spec.Label.Worker)
	exit, err := r.engine.call(ctx, j.host.path, args...)
	return strings.Fields(exit.Stdout), r.callError(exit, err, args)
}
