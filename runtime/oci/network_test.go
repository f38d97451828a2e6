package oci

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
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

func TestARunWithNetworkIsKeptFromEveryCanaryThatIsNotAllowed(t *testing.T) {
	allowed, err := firewall.ParseDestination("192.0.2.0/24:443")
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{
		config: Config{
			Canaries: []netip.AddrPort{
				netip.MustParseAddrPort("192.0.2.7:443"), netip.MustParseAddrPort("192.0.2.7:80"),
				netip.MustParseAddrPort("1.1.1.1:53"), netip.MustParseAddrPort("198.51.100.9:9000"),
			},
			EgressAllow: []firewall.Destination{allowed},
		},
		endpoints: []endpoint{{host: "198.51.100.9", port: 9000}},
	}
	if got := r.kept(); !slices.Equal(got, []string{"192.0.2.7:80", "1.1.1.1:53"}) {
		t.Errorf("kept from %v", got)
	}
}
