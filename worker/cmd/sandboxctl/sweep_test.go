package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/internal/identity"
)

// sweeping is a runtime that sweeps for as long, whatever its context says, as one
// does that ends a container which nothing ends.
type sweeping struct {
	sandbox.Runtime
	takes    time.Duration
	policies []sandbox.SweepPolicy
}

func (s *sweeping) Sweep(_ context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	s.policies = append(s.policies, policy)
	<-time.After(s.takes)
	return sandbox.SweepReport{}, nil
}

// ending is a session over that runtime whose runs are over.
func ending(r sandbox.Runtime, stopped <-chan struct{}) *session {
	c := &config.Config{}
	c.Worker.Sandbox.Runtime, c.Worker.Sandbox.Crun.OrphanAfterSecs = "crun", 900
	return &session{Built: build.Built{Runtime: r}, config: c, worker: identity.New(), swept: true, stopped: stopped}
}

func TestTheLastSweepIsBoundedAndCutShortByASignal(t *testing.T) {
	const never = 24 * time.Hour
	for _, c := range []struct {
		name         string
		takes, after time.Duration
		want         bool
		ends         time.Duration
	}{
		{"one that ends", 9 * time.Second, never, true, 9 * time.Second},
		{"one that does not end", 45 * time.Second, never, false, 10 * time.Second},
		{"a signal", 45 * time.Second, 3 * time.Second, false, 3 * time.Second},
		{"a signal before it", 45 * time.Second, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signalled, cancel := context.WithTimeout(t.Context(), c.after)
				defer cancel()
				began := time.Now()
				got := ending(&sweeping{takes: c.takes}, signalled.Done()).nothingLeft()
				if took := time.Since(began); got != c.want || took != c.ends {
					t.Errorf("nothing left %t after %s, want %t after %s", got, took, c.want, c.ends)
				}
				<-time.After(c.takes) // for the goroutine to end
			})
		})
	}
}

// What others have left is the start's to sweep, for which nobody waits at the end.
func TestTheLastSweepIsOfThisWorkersOwn(t *testing.T) {
	r := &sweeping{}
	s := ending(r, nil)
	if !s.nothingLeft() || len(r.policies) != 1 || r.policies[0] != (sandbox.SweepPolicy{Worker: s.worker.ID()}) {
		t.Errorf("swept with %+v, want %s's alone", r.policies, s.worker.ID())
	}
}
