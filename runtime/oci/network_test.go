package oci

import (
	"net/netip"
	"testing"
)

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
