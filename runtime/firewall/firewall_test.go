package firewall

import (
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var storagePool = netip.MustParsePrefix("10.213.0.0/16")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func addrs(list ...string) []netip.AddrPort {
	var a []netip.AddrPort
	for _, s := range list {
		a = append(a, netip.MustParseAddrPort(s))
	}
	return a
}

func TestTheFirewallLetsThePoolReachTheStorageAndNothingElse(t *testing.T) {
	got, err := Ruleset(Zone{Pool: storagePool, Storage: addrs("10.1.2.3:9000", "192.0.2.7:443", "10.1.2.3:9000")})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "ruleset", got)
}

func TestTheFirewallIsOneThatNftTakes(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil || os.Geteuid() != 0 {
		t.Skip("not run: nft checks a ruleset as root alone")
	}
	ruleset, err := Ruleset(Zone{Pool: storagePool, Storage: addrs("10.1.2.3:9000")}, egressZone(t))
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
		if got, err := Ruleset(Zone{Pool: netip.MustParsePrefix(c.pool), Storage: c.endpoints}); err == nil {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// egressZone is a zone with every form of a destination.
func egressZone(t *testing.T) Zone {
	t.Helper()
	z := Zone{Pool: netip.MustParsePrefix("10.99.0.0/24"), Storage: addrs("10.1.2.3:9000")}
	for _, text := range []string{"192.0.2.53:53", "192.0.2.1", "198.51.100.0/24:443", "203.0.113.0/25", "0.0.0.0/0:443", "192.0.2.1"} {
		d, err := ParseDestination(text)
		if err != nil || d.String() != text {
			t.Fatalf("%s: %v, %v", text, d, err)
		}
		z.Egress = append(z.Egress, d)
	}
	return z
}

func TestTheFirewallHoldsRunsWithNetworkToWhatTheyAreAllowed(t *testing.T) {
	got, err := Ruleset(Zone{Pool: storagePool, Storage: addrs("10.1.2.3:9000")}, egressZone(t))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "egress", got)
}

func TestPoolsThatOverlapMakeNoFirewall(t *testing.T) {
	for _, pool := range []string{"10.213.0.0/16", "10.213.7.0/24", "10.0.0.0/8"} {
		z := Zone{Pool: netip.MustParsePrefix(pool)}
		if got, err := Ruleset(Zone{Pool: storagePool}, z); err == nil {
			t.Errorf("%s: got %s", pool, got)
		}
	}
}

func TestADestinationThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"", "x", "192.0.2.1/24", "192.0.2.0/33", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:", "[::1]:80", "fd00::/8", "192.0.2.1:tcp", "192.0.2.1:1:2", "example.com:443"} {
		if d, err := ParseDestination(text); err == nil || !strings.Contains(err.Error(), "is not IP[/BITS][:PORT]") {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}
