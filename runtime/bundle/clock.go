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

// Carrier is a bundle on its way to an agent: a *Dir or a *Remote.
type Carrier interface {
	// In is the URL of the manifest and Out that of the result, as the agent
	// sees them.
	In() string
	Out() string
}

// fetched says whether the agent is known to have fetched its bundle, or
// nobody here can know: a Dir's manifest goes away, a Remote's agent keeps to
// the start's bound by itself (wire.Manifest.FetchMS).
func fetched(c Carrier) bool {
	f, ok := c.(interface{ Fetched() bool })
	return !ok || f.Fetched()
}

// Watch is ctx with the start's bound: it ends if the carrier was seen not to be fetched
// in time.
func (c Clock) Watch(ctx context.Context, carrier Carrier) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.start(), func() {
		if !fetched(carrier) {
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
func EndError(ctx context.Context, c Carrier) *sandbox.Error {
	return endError(ctx, fetched(c))
}

func endError(ctx context.Context, fetched bool) *sandbox.Error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStart), errors.Is(cause, errRun) && !fetched:
		return &sandbox.Error{Kind: sandbox.StartTimeout, Detail: errStart.Error()}
	case errors.Is(cause, errRun):
		return &sandbox.Error{Kind: sandbox.RunTimeout, Detail: errRun.Error()}
	}
	return &sandbox.Error{Kind: sandbox.Cancelled, Err: cause}
}
