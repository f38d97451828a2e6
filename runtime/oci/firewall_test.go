package oci

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

func addrs(list ...string) []netip.AddrPort {
	var a []netip.AddrPort
	for _, s := range list {
		a = append(a, netip.MustParseAddrPort(s))
	}
	return a
}

func TestTheFirewallLetsThePoolReachTheStorageAndNothingElse(t *testing.T) {
	got, err := Firewall(DefaultStoragePool, addrs("10.1.2.3:9000", "192.0.2.7:443", "10.1.2.3:9000"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "firewall", got)
}

func TestTheFirewallIsOneThatNftTakes(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil || !root() {
		t.Skip("not run: nft checks a ruleset as root alone")
	}
	ruleset, err := Firewall(DefaultStoragePool, addrs("10.1.2.3:9000"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nft", "--check", "-f", "-")
	cmd.Stdin = strings.NewReader(ruleset)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAFirewallIsRefusedThatWouldBeNone(t *testing.T) {
	for _, c := range []struct {
		pool      string
		endpoints []netip.AddrPort
	}{
		{"10.213.0.0/30", nil},
		{"0.0.0.0/0", nil},
		{"10.213.0.1/16", nil},
		{"fd00::/64", nil},
		{"10.213.0.0/16", addrs("10.213.0.1:80")},
		{"10.213.0.0/16", addrs("[::1]:80")},
		{"10.213.0.0/16", []netip.AddrPort{{}}},
	} {
		if got, err := Firewall(netip.MustParsePrefix(c.pool), c.endpoints); err == nil {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestSubnetsAreCutFromThePoolAndDoNotOverlap(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	pool := netip.MustParsePrefix("10.9.8.0/24")
	for n := range uint32(64) {
		s := subnet(pool, n)
		if !pool.Overlaps(s) || s.Bits() != 29 || s != s.Masked() {
			t.Errorf("%d: got %s", n, s)
		}
		seen[s] = true
	}
	if len(seen) != 32 {
		t.Errorf("%d subnets, want 32", len(seen))
	}
	if got := subnet(netip.MustParsePrefix("10.0.0.0/29"), 1<<31); got.String() != "10.0.0.0/29" {
		t.Errorf("got %s", got)
	}
}
