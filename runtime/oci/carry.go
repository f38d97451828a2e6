package oci

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// carry runs the engine over a parcel and reads what the agent left there.
func (r *Runtime) carry(ctx context.Context, j *job, p parcel, in Instance) (bundle.Answer, *sandbox.Error) {
	ctx, cancel := j.clock.Watch(ctx, r.watched(j, p))
	defer cancel()
	if fault := r.writeHosts(p, &in); fault != nil {
		return bundle.Answer{}, fault
	}
	c := r.config
	c.Binary = j.host.path
	began := time.Now()
	exit, left, err := r.drive(ctx, j, process.Spec{Path: j.host.path, Argv: Argv(c, j.spec, in), Env: r.engine.env})
	exit.Stderr = redact(tidy(exit.Stderr), in)
	var fault *sandbox.Error
	var answer bundle.Answer
	switch {
	case ctx.Err() != nil && (err != nil || exit.Status != 0):
		fault = bundle.EndError(ctx, r.watched(j, p))
		fault.Stderr = exit.Stderr
	case err != nil:
		fault = r.engine.missing(err)
	case exit.Status != 0 || exit.Signal != 0:
		fault = r.broken(ctx, j, p, exit, began)
	default:
		answer, fault = r.collect(ctx, p, exit)
	}
	return answer, fail.Left(fault, left)
}

// watched is what tells whether a run has started: a run directory by its
// manifest, which the agent takes away. Of the storage only the agent knows,
// which keeps the time itself; but it must have been started for that.
func (r *Runtime) watched(j *job, p parcel) bundle.Carrier {
	if r.config.Transport == Mount {
		return p
	}
	return &started{parcel: p, runtime: r, job: j}
}

type started struct {
	parcel
	runtime *Runtime
	job     *job
}

// Fetched says whether the container runs, or ran when this was first asked.
func (s *started) Fetched() bool {
	if !s.job.started.Load() && s.runtime.running(s.job) {
		s.job.started.Store(true)
	}
	return s.job.started.Load()
}

// grace is how long an engine's command may take to end by itself once its
// container has been removed.
const grace = 3 * time.Second

// drive runs the engine's command to its end. When ctx ends the container is
// ended first, which ends the command: a command that is killed leaves its
// container running (https://github.com/moby/moby/issues/35647), or makes it
// afterwards, and podman's leaves what it was just making of a network, which
// nobody knows of then. left says that a container could not be seen gone.
func (r *Runtime) drive(ctx context.Context, j *job, spec process.Spec) (exit process.Exit, left, err error) {
	if ctx.Err() != nil {
		return exit, nil, ctx.Err()
	}
	own, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		exit, err = process.Run(own, spec)
	}()
	select {
	case <-done:
		if err == nil && r.ended(exit) {
			return exit, nil, nil
		}
	case <-ctx.Done():
		r.end(context.WithoutCancel(ctx), j, done)
		kill()
		<-done
	}
	return exit, r.vanish(ctx, j), err
}

// ended says whether the command reported its container's own end, which it
// does after it has removed it. The other statuses are the engine's, and say
// nothing about what it has left.
func (r *Runtime) ended(exit process.Exit) bool {
	return exit.Signal == 0 && !slices.Contains([]int{engineFailed, notInvoked, notFound}, exit.Status)
}

// end kills the container, again and again while there is none yet, and lets
// the command take it away: whoever removed a container that is just being
// started would do so beside it. It is removed for a command that has not ended
// in time, or that waits for something else, such as an image.
func (r *Runtime) end(ctx context.Context, j *job, done <-chan struct{}) {
	patience := time.NewTimer(r.removal)
	defer patience.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for killed := false; ; {
		if !killed {
			killed = r.kill(ctx, j)
		}
		select {
		case <-done:
			return
		case <-patience.C:
			_, _ = r.removeOwn(ctx, j)
			select {
			case <-done:
			case <-time.After(grace):
			}
			return
		case <-again.C:
		}
	}
}

// collect reads the result of a run whose command has ended well. That and a
// result are needed: neither is enough alone.
func (r *Runtime) collect(ctx context.Context, p parcel, exit process.Exit) (bundle.Answer, *sandbox.Error) {
	result, stdout, err := p.Result(ctx)
	if err == nil {
		return bundle.Answer{Result: result, Stdout: stdout}, nil
	}
	e := bundle.ReadError(err)
	e.Stderr = exit.Stderr
	if e.Code == sandbox.CodeNoResult {
		e.Err = nil
		e.Detail = r.config.Engine + " exited 0 and no result came back"
		e.Hint = docs
	}
	return bundle.Answer{}, e
}

// broken is a command that did not end well. Whatever stands at the result's
// place then, the agent did not get to say that it is the result.
func (r *Runtime) broken(ctx context.Context, j *job, p parcel, exit process.Exit, began time.Time) *sandbox.Error {
	e := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Stderr: exit.Stderr, Hint: docs}
	how := fmt.Sprintf("%s exited %d", r.config.Engine, exit.Status)
	switch {
	case exit.Signal != 0:
		e.Signal = fail.Signal(exit.Signal)
		how = r.config.Engine + " was killed by " + e.Signal
	case exit.Status >= engineFailed && exit.Status <= notFound, exit.Status == 1 && strings.HasSuffix(exit.Stderr, badFormat):
		// An agent of another architecture ends as if it had run.
		r.recognise(e, exit.Status)
	case exit.Status > 128:
		r.killed(ctx, j, e, syscall.Signal(exit.Status-128), began)
		return e
	}
	if words := bundle.AgentExit(exit.Status); words != "" {
		how += fmt.Sprintf(" (agent: %s)", words)
		r.agentFailed(p, e, exit.Status)
	}
	e.Detail = how + " and no result came back"
	return e
}

// redact takes a run's URLs out of what an engine printed: they are secrets
// while they live.
func redact(s string, in Instance) string {
	for _, url := range []string{in.In, in.Out} {
		if strings.HasPrefix(url, "http") {
			s = strings.ReplaceAll(s, url, "<presigned URL>")
		}
	}
	return s
}
