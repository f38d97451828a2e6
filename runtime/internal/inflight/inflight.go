// Package inflight counts the runs that a runtime has in flight, and ends them
// when it is closed.
package inflight

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the cause of a run's end when its runtime is closed.
var ErrClosed = errors.New("the runtime is closed")

// Group is a set of runs. Its zero value is ready.
type Group struct {
	mu     sync.Mutex
	closed bool
	next   int
	ends   map[int]context.CancelCauseFunc
	runs   sync.WaitGroup
}

// Begin returns a context that also ends when the group is closed, and the
// function that ends the run's membership. It returns ErrClosed after that.
func (g *Group) Begin(ctx context.Context) (context.Context, func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if g.ends == nil {
		g.ends = make(map[int]context.CancelCauseFunc)
	}
	id := g.next
	g.next++
	g.ends[id] = cancel
	g.runs.Add(1)
	return ctx, func() {
		g.mu.Lock()
		delete(g.ends, id)
		g.mu.Unlock()
		cancel(nil)
		g.runs.Done()
	}, nil
}

// Close cancels every run and returns when all are over.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	for _, end := range g.ends {
		end(ErrClosed)
	}
	g.mu.Unlock()
	g.runs.Wait()
}
