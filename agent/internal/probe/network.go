package probe

import (
	"context"
	"net/netip"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// network: no canary can be reached. Without a canary nothing was tried, and
// that is not a wall.
func (p *probe) network(ctx context.Context) (wire.Outcome, string) {
	if len(p.manifest.Canaries) == 0 {
		return fail("the manifest lists no canary, so nothing could be tried")
	}
	canaries := make([]netip.AddrPort, 0, len(p.manifest.Canaries))
	for _, c := range p.manifest.Canaries {
		canary, err := wire.ParseCanary(c)
		if err != nil {
			return fail("%v", err)
		}
		canaries = append(canaries, canary)
	}
	var reached, held []string
	for _, f := range p.Network(ctx, canaries) {
		if f.Held() {
			held = append(held, f.Detail)
		} else {
			reached = append(reached, string(f.Outcome)+": "+f.Detail)
		}
	}
	if len(reached) > 0 || len(held) != len(canaries) {
		return fail("%s", strings.Join(append(reached, held...), "; "))
	}
	return pass("%s", strings.Join(held, "; "))
}
