package canary

import (
	"net"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestTheCanaryListensWhereASandboxCouldRouteTo(t *testing.T) {
	c := Listen()
	addrs := c.Addrs()
	for _, a := range addrs {
		if _, err := wire.ParseCanary(a.String()); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if addrs[len(addrs)-1] != Public {
		t.Errorf("%v has no public canary", addrs)
	}
	if len(addrs) == 1 {
		c.Close()
		t.Skip("not run: this host has no address that could be routed to")
	}
	conn, err := net.DialTimeout("tcp", addrs[0].String(), 5*time.Second)
	if err != nil {
		t.Fatalf("the canary does not answer from outside a sandbox: %v", err)
	}
	_ = conn.Close()
	c.Close()
	if _, err := net.DialTimeout("tcp", addrs[0].String(), 5*time.Second); err == nil {
		t.Error("the canary still answers after Close")
	}
}
