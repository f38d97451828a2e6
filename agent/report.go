package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// failed reports what the agent could not do.
func (r *run) failed(stage wire.Stage, err error) {
	r.result.Ending = wire.EndFailed
	r.result.Failure = &wire.Failure{Stage: stage, Code: codeOf(err), Detail: detail(err)}
}

// stopped reports an error of a stage that may also have been stopped by the
// clock, or be an answer about the artifact.
func (r *run) stopped(ctx context.Context, stage wire.Stage, err error) {
	var refusal *extract.RefusalError
	switch {
	case errors.As(err, &refusal):
		r.result.Ending = wire.EndRefused
		r.result.Refusal = &refusal.Refusal
	case errors.Is(context.Cause(ctx), errTimedOut):
		r.result.Ending = wire.EndTimedOut
	default:
		r.failed(stage, err)
	}
}

func codeOf(err error) string {
	switch {
	case errors.Is(err, launch.ErrNotFound):
		return wire.CodeNotFound
	case errors.Is(err, launch.ErrNotExecutable):
		return wire.CodeNotExecutable
	}
	return fetch.CodeOf(err)
}

// detail is an error as one line of valid UTF-8 that fits.
func detail(err error) string {
	s := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "\uFFFD")
	if len(s) > wire.DetailCap/2 {
		s = strings.ToValidUTF8(s[:wire.DetailCap/2], "") + "…"
	}
	return s
}

// errTimedOut ends a context when the manifest's time is used up.
var errTimedOut = errors.New("the run's time is used up")

// clock counts the time that extraction and scanner may take together. It
// stands still between the two, while the network gate is waited for.
type clock struct{ left time.Duration }

func newClock(d time.Duration) *clock { return &clock{left: d} }

// run gives one phase the time that is left. The function returned ends the
// phase and says how long it took.
func (c *clock) run(ctx context.Context) (context.Context, func() time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, c.left, errTimedOut)
	return ctx, func() time.Duration {
		cancel()
		took := time.Since(began)
		c.left -= took
		return took
	}
}
