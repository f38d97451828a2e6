package agent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/internal/gate"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// gateSilence is how long a canary's silence must last to count as a wall. A
// probe waits longer; a run asks each time and may not cost more.
const gateSilence = 250 * time.Millisecond

// gatePause is the time between two questions while a wall is not up yet.
const gatePause = 100 * time.Millisecond

// gateCheck is the check of a run's own network wall, beside everything that
// goes before the scanner.
type gateCheck struct {
	done   chan gateAnswer
	cancel context.CancelFunc
}

type gateAnswer struct {
	err   error
	fault any
}

// openGate starts the check. It is needed although a probe has passed:
// a cluster's policy can take effect seconds after an instance has started.
func (r *run) openGate(ctx context.Context) *gateCheck {
	ctx, cancel := context.WithTimeout(ctx, r.opts.gateBound())
	g := &gateCheck{done: make(chan gateAnswer, 1), cancel: cancel}
	canaries, err := canariesOf(r.manifest)
	if err != nil || len(canaries) == 0 {
		g.done <- gateAnswer{err: err}
		return g
	}
	go func() {
		var a gateAnswer
		defer func() {
			a.fault = recover()
			g.done <- a
		}()
		a.err = awaitWall(ctx, canaries)
	}()
	return g
}

// wait returns nil when the wall stands.
func (g *gateCheck) wait() error {
	a := <-g.done
	if a.fault != nil {
		panic(a.fault)
	}
	return a.err
}

func (g *gateCheck) stop() { g.cancel() }

func canariesOf(m *wire.Manifest) ([]netip.AddrPort, error) {
	list := make([]netip.AddrPort, 0, len(m.Canaries))
	for _, c := range m.Canaries {
		canary, err := wire.ParseCanary(c)
		if err != nil {
			return nil, err
		}
		list = append(list, canary)
	}
	return list, nil
}

// awaitWall asks until every canary is out of reach, or ctx ends.
func awaitWall(ctx context.Context, canaries []netip.AddrPort) error {
	for {
		open := notHeld(gate.Check(ctx, canaries, gateSilence))
		if open == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the network is not closed: %s", open)
		case <-time.After(gatePause):
		}
	}
}

func notHeld(findings []gate.Finding) string {
	var open []string
	for _, f := range findings {
		if !f.Held() {
			open = append(open, f.Detail)
		}
	}
	return strings.Join(open, "; ")
}
