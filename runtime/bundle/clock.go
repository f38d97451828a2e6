package bundle

import (
	"context"
	"errors"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// DefaultStartTimeout is the start timeout of a run that says none.
const DefaultStartTimeout = 120 * time.Second

// errStart and errRun end a run's context when its time is up.
var (
	errStart = errors.New("the agent had not fetched its bundle in time")
	errRun   = errors.New("the run took longer than it may")
)

// Clock bounds one run: until its bundle is fetched by the start timeout, and
// in all by the start timeout and the timeout together.
type Clock struct {
	// Start and Timeout are the two bounds; a Start of 0 or less means
	// DefaultStartTimeout.
	Start, Timeout time.Duration
}

func (c Clock) start() time.Duration {
	if c.Start <= 0 {
		return DefaultStartTimeout
	}
	return c.Start
}

// Deadline is when a run that begins now is over at the latest.
func (c Clock) Deadline() time.Time { return time.Now().Add(c.start() + c.Timeout) }

// Context is ctx with the whole run's bound.
func (c Clock) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.start()+c.Timeout, errRun)
}

// Watch is ctx with the start's bound: it ends if d was not fetched in time.
func (c Clock) Watch(ctx context.Context, d *Dir) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.start(), func() {
		if !d.Fetched() {
			cancel(errStart)
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// EndError is why a run was ended: its time was up, or its caller's context
// ended.
func EndError(ctx context.Context, d *Dir) *sandbox.Error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStart), errors.Is(cause, errRun) && !d.Fetched():
		return &sandbox.Error{Kind: sandbox.StartTimeout, Detail: errStart.Error()}
	case errors.Is(cause, errRun):
		return &sandbox.Error{Kind: sandbox.RunTimeout, Detail: errRun.Error()}
	}
	return &sandbox.Error{Kind: sandbox.Cancelled, Err: cause}
}
