package kubernetes

import (
	"net/netip"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// A policy that keeps runs from their storage says nothing about an artifact:
// the error is of the fetch, and names the two places to look.
func TestLiveARunThatCantReachItsStorageSaysSo(t *testing.T) {
	l := newLive(t, options{unguarded: true})
	// Another port of the storage's host is all that is open.
	closed := netip.AddrPortFrom(l.server.Addr(), 9)
	l.post("/apis/networking.k8s.io/v1/namespaces/"+l.namespace+"/networkpolicies", storagePolicy, closed.Addr(), closed.Port())
	t.Run("until the agent gives up", func(t *testing.T) {
		l.t = t
		l.fails(l.spec("env"), sandbox.Crashed, sandbox.CodeFetch, "a pod has to reach the storage", "storageEgress")
	})
	t.Run("until the run is out of time", func(t *testing.T) {
		l.t = t
		spec := l.spec("env")
		spec.StartTimeout, spec.Timeout = 5*time.Second, 3*time.Second
		l.fails(spec, sandbox.RunTimeout, "", "has not answered", "whether a pod reaches the storage")
	})
}
