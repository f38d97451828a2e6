package bundle

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/inflight"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Begin is the head of every runtime's run: it is in flight until done is
// called, bounded by its clock, and has a label that names can be made of. With
// a fault there is no run, and nothing to be done with.
func Begin(
	ctx context.Context, runs *inflight.Group, spec sandbox.RunSpec, m *wire.Manifest,
) (run context.Context, clock Clock, done func(), fault *sandbox.Error) {
	if err := m.Label.Validate(); err != nil {
		return nil, clock, nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	run, leave, err := runs.Begin(ctx)
	if err != nil {
		return nil, clock, nil, &sandbox.Error{Kind: sandbox.Cancelled, Err: err}
	}
	clock = Clock{Start: spec.StartTimeout, Timeout: m.Timeout()}
	run, cancel := clock.Context(run)
	return run, clock, func() { cancel(); leave() }, nil
}
