package bundle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestARunIsInFlightAndBoundedUntilItIsDone(t *testing.T) {
	var runs inflight.Group
	spec := specOf()
	ctx, clock, done, fault := bundle.Begin(t.Context(), &runs, spec, bundle.Manifest(spec, nil))
	if fault != nil {
		t.Fatal(fault)
	}
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > spec.StartTimeout+spec.Timeout || !clock.Deadline().After(end.Add(-time.Second)) {
		t.Errorf("the run is bounded by %v, its clock says %v", end, clock.Deadline())
	}
	closed := make(chan struct{})
	go func() {
		runs.Close()
		close(closed)
	}()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), inflight.ErrClosed) {
		t.Errorf("the run ended by %v", context.Cause(ctx))
	}
	select {
	case <-closed:
		t.Error("the group was closed beside a run")
	default:
	}
	done()
	<-closed
	if _, _, _, fault := bundle.Begin(t.Context(), &runs, spec, bundle.Manifest(spec, nil)); fault == nil || fault.Kind != sandbox.Cancelled {
		t.Errorf("after Close: %v", fault)
	}
}

func TestARunWithALabelThatNamesNothingIsRefused(t *testing.T) {
	var runs inflight.Group
	spec := specOf()
	spec.Label.Job = "../../etc"
	if _, _, _, fault := bundle.Begin(t.Context(), &runs, spec, bundle.Manifest(spec, nil)); fault == nil || fault.Kind != sandbox.Refused {
		t.Errorf("got %v", fault)
	}
	runs.Close()
}
