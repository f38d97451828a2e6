package agent

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// probe makes the assertions in the scanner's place.
func (r *run) probe(ctx context.Context) {
	if err := r.removeBundle(); err != nil {
		r.failed(wire.StageFetch, err)
		return
	}
	if r.manifest.Probe.KubernetesEnv {
		r.awaitPolicy(ctx)
	}
	room := probe.Here(r.opts.WorkDir, r.opts.Home, r.opts.Path)
	room.Environ, room.Exchanges = r.opts.Environ, r.exchanges
	seen := probe.Run(ctx, r.manifest, room)
	r.result.Ending, r.result.Probe = wire.EndProbed, &seen
}

// awaitPolicy gives a cluster's policy, which can take effect seconds after an
// instance has started, the time that it has before a run. Whether it stands
// then is an assertion's to say.
func (r *run) awaitPolicy(ctx context.Context) {
	gate := r.openGate(ctx)
	defer gate.stop()
	_ = gate.wait()
}
