package gate_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/internal/gate"
)

// expectation is what one canary must show.
type expectation struct {
	canary  string
	outcome gate.Outcome
	detail  string // a part of it
}

func checkAll(t *testing.T, silence time.Duration, want []expectation) []gate.Finding {
	t.Helper()
	canaries := make([]netip.AddrPort, len(want))
	for i, w := range want {
		canaries[i] = netip.MustParseAddrPort(w.canary)
	}
	findings := gate.Check(t.Context(), canaries, silence)
	if len(findings) != len(want) {
		t.Fatalf("%d findings for %d canaries", len(findings), len(want))
	}
	for i, f := range findings {
		w := want[i]
		if f.Canary != canaries[i] || f.Outcome != w.outcome || !strings.Contains(f.Detail, w.detail) || !strings.HasPrefix(f.Detail, w.canary) {
			t.Errorf("%s: got %s (%q), want %s (…%q)", w.canary, f.Outcome, f.Detail, w.outcome, w.detail)
		}
		if held := w.outcome == gate.Blocked || w.outcome == gate.Rejected; f.Held() != held {
			t.Errorf("%s: Held() is %v for %s", w.canary, f.Held(), f.Outcome)
		}
	}
	return findings
}

func TestANetworkWithoutARouteIsBlockedAtOnce(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	start := time.Now()
	checkAll(t, time.Minute, []expectation{
		{"192.0.2.1:80", gate.Blocked, "network is unreachable"},
		{"1.1.1.1:53", gate.Blocked, "network is unreachable"},
		{"[2001:db8::1]:80", gate.Blocked, "connect: "},
	})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v: the silence was waited for", took)
	}
}

func TestRoutesThatForbidAreBlockedAtOnce(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	if err := ip(`link set lo up
		route add prohibit 198.51.100.1
		route add unreachable 198.51.100.2
		route add blackhole 198.51.100.3
		route add prohibit 2001:db8:1::1
		route add unreachable 2001:db8:1::2
		route add blackhole 2001:db8:1::3`); err != nil {
		t.Fatal(err)
	}
	checkAll(t, time.Minute, []expectation{
		{"198.51.100.1:80", gate.Blocked, "permission denied"},
		{"198.51.100.2:80", gate.Blocked, "no route to host"},
		{"198.51.100.3:80", gate.Blocked, "invalid argument"},
		{"[2001:db8:1::1]:80", gate.Blocked, "permission denied"},
		{"[2001:db8:1::2]:80", gate.Blocked, "connect: "},
		{"[2001:db8:1::3]:80", gate.Blocked, "invalid argument"},
	})
}

func TestARealHostAndItsGatewayAreReadPrecisely(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	startFar(t)
	start := time.Now()
	checkAll(t, time.Minute, []expectation{
		{"192.0.2.1:80", gate.Open, "accepted a connection"},
		{"[2001:db8::1]:80", gate.Open, "accepted a connection"},
		{"192.0.2.1:81", gate.Refused, "connection refused"},
		{"[2001:db8::1]:81", gate.Refused, "connection refused"},
		{"198.51.100.1:80", gate.Rejected, "by an ICMP message of 192.0.2.1"},
		{"198.51.100.2:80", gate.Rejected, "by an ICMP message of 192.0.2.1"},
		{"[2001:db8:1::1]:80", gate.Rejected, "by an ICMP message of 2001:db8::1"},
		{"[2001:db8:1::2]:80", gate.Rejected, "by an ICMP message of 2001:db8::1"},
	})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v: the silence was waited for", took)
	}
	checkAll(t, 300*time.Millisecond, []expectation{
		{"198.51.100.3:80", gate.Blocked, "no answer within 300ms"},
		{"[2001:db8:1::3]:80", gate.Blocked, "no answer within 300ms"},
	})
}

func TestEveryAnswerOnTheWireIsToldApart(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	startWire(t)
	var want []expectation
	for _, host := range []string{"198.51.100.%d:53", "[2001:db8:1::%x]:53"} {
		gateway := "192.0.2.1"
		if strings.HasPrefix(host, "[") {
			gateway = "2001:db8::1"
		}
		address := func(answer int) string { return fmt.Sprintf(host, answer) }
		want = append(want,
			expectation{address(answerSynAck), gate.Open, "accepted a connection"},
			expectation{address(answerReset), gate.Refused, "connection refused"},
			// A firewall's refusal and the canary's own have the same code in the same message.
			expectation{address(answerPortUnreachableByGateway), gate.Rejected, "connection refused, by an ICMP message of " + gateway},
			expectation{address(answerPortUnreachableByItself), gate.Refused, "by an ICMP message of its own host"},
			expectation{address(answerProhibitedByGateway), gate.Rejected, "by an ICMP message of " + gateway},
			expectation{address(answerProhibitedByItself), gate.Refused, "by an ICMP message of its own host"},
			expectation{address(answerNothing), gate.Blocked, "no answer within 3s"},
		)
	}
	// A packet lost on the way is sent again after a second.
	checkAll(t, 3*time.Second, want)
}

func TestAnOpenCanaryIsSeenOnTheHostsOwnAddress(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	if err := ip(`link set lo up
		addr add 192.0.2.7/32 dev lo`); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "192.0.2.7:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().String()
	checkAll(t, 10*time.Second, []expectation{{open, gate.Open, "accepted"}, {"192.0.2.7:1", gate.Refused, "refused"}})
	l.Close()
	checkAll(t, 10*time.Second, []expectation{{open, gate.Refused, "refused"}})
}

func TestACancelledCheckIsUnknownAndNotBlocked(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	startWire(t)
	silent := netip.MustParseAddrPort(fmt.Sprintf("198.51.100.%d:53", answerNothing))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	findings := gate.Check(ctx, []netip.AddrPort{silent}, time.Minute)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v after the context was done", took)
	}
	if f := findings[0]; f.Outcome != gate.Unknown || f.Held() || !strings.Contains(f.Detail, "not waited for") {
		t.Errorf("got %+v", f)
	}
}

func TestAddressesThatCantBeTriedAreUnknown(t *testing.T) {
	findings := gate.Check(t.Context(), []netip.AddrPort{
		{}, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 0), netip.MustParseAddrPort("[fe80::1%lo]:80"),
	}, time.Second)
	for _, f := range findings {
		if f.Outcome != gate.Unknown || f.Held() || f.Detail == "" {
			t.Errorf("%v: got %s (%q), want %s", f.Canary, f.Outcome, f.Detail, gate.Unknown)
		}
	}
}

func TestNoCanaryGivesNoFinding(t *testing.T) {
	if got := gate.Check(t.Context(), nil, time.Minute); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
