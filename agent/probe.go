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
	room := probe.Here(r.opts.WorkDir, r.opts.Home, r.opts.Path)
	room.Environ, room.Exchanges = r.opts.Environ, r.exchanges
	seen := probe.Run(ctx, r.manifest, room)
	r.result.Ending, r.result.Probe = wire.EndProbed, &seen
}
