package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// call is one call of a Backend, with its retries and its deadline.
type call struct {
	backend *Backend
	op, key string
	caller  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	begun   time.Time
	bound   time.Duration
	clock   *clock
}

// errLate ends a call's context when its time is up.
var errLate = errors.New("the call took longer than it may")

// begin begins a call on key, which may be "" for a whole bucket.
func (b *Backend) begin(ctx context.Context, op, key string) (*call, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c := &call{backend: b, op: op, key: key, caller: ctx, begun: time.Now(), bound: b.config.Timeout, clock: &clock{}}
	if key != "" {
		if err := storage.CheckKey(key); err != nil {
			return nil, c.wrap(err)
		}
	} else if op != "list" {
		return nil, c.wrap(storage.CheckKey(key))
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(ctx, clockKey{}, c.clock))
	c.timer = time.AfterFunc(c.bound, func() { c.cancel(errLate) })
	return c, nil
}

// extend gives the call the time that size bytes may take.
func (c *call) extend(size int64) {
	c.bound += time.Duration(float64(size) / float64(c.backend.config.MinRate) * float64(time.Second))
	if c.timer.Stop() {
		c.timer.Reset(c.bound - time.Since(c.begun))
	}
}

func (c *call) end() {
	c.timer.Stop()
	c.cancel(nil)
}

// The pauses between tries double from pauseBase, and each is shortened at
// random so that workers do not ask in step.
const (
	pauseBase = 100 * time.Millisecond
	pauseCap  = 2 * time.Second
)

// repeat makes the call until it succeeds, is refused, or was tried often
// enough.
func (c *call) repeat(try func(ctx context.Context) error) error {
	pause := pauseBase
	for n := 1; ; n++ {
		err := try(c.ctx)
		if err == nil {
			return nil
		}
		if n >= c.backend.config.Tries || !retryable(err) || !c.pause(pause) {
			return c.explain(err)
		}
		pause = min(2*pause, pauseCap)
	}
}

// pause waits between half of d and d, and returns whether there is time left.
func (c *call) pause(d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// upload is repeat for a call that sends what r reads. Only a reader that can
// be wound back can be sent again.
func (c *call) upload(r io.Reader, size int64, try func(ctx context.Context, body io.Reader) error) error {
	seeker, again := r.(io.Seeker)
	var start int64
	if again {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			again = false // a pipe in a file's clothes
		}
	}
	wound := true
	return c.repeat(func(ctx context.Context) error {
		if !wound {
			if _, err := seeker.Seek(start, io.SeekStart); err != nil {
				return final{fmt.Errorf("winding the reader back: %w", err)}
			}
		}
		wound = false
		body := &watched{r: storage.Exactly(r, size)}
		if size == 0 {
			// No request has a body to read then.
			if _, err := body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				return final{err}
			}
		}
		err := try(ctx, body)
		switch {
		case err != nil && body.fault() != nil:
			return final{body.fault()}
		case err != nil && !again:
			return once{err}
		}
		return err
	})
}

// final is an error of the caller's reader: nothing the server said, and the
// same whenever it is asked again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// once is an error of a call that can't be repeated, whatever it is.
type once struct{ error }

func (o once) Unwrap() error { return o.error }
