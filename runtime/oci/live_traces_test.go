package oci

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// traces are what this host still has of a pool, which no engine lists once it
// has forgotten the container: bridges, rules, and network namespaces, which
// keep their end of a veth pair.
func traces(t *testing.T, pool netip.Prefix) []string {
	t.Helper()
	within := strings.TrimSuffix(pool.Masked().Addr().String(), "0")
	var found []string
	keep := func(what, out string) {
		for line := range strings.Lines(out) {
			if strings.Contains(line, within) {
				found = append(found, what+": "+strings.Join(strings.Fields(line), " "))
			}
		}
	}
	tell := func(argv ...string) string {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%q: %v", argv, err)
		}
		return string(out)
	}
	keep("link", tell("ip", "-o", "-4", "addr"))
	keep("rule", tell("iptables-save"))
	files, err := filepath.Glob("/run/netns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// Somebody else's may go at any time.
		out, _ := exec.Command("nsenter", "--net="+f, "ip", "-o", "-4", "addr").Output()
		keep("namespace "+f, string(out))
	}
	return found
}

func TestRunsCancelledAtAnyTimeLeaveNoNetworkOfTheirsOnTheHost(t *testing.T) {
	for _, program := range []string{"ip", "iptables-save", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("not run: there is no " + program)
		}
	}
	eachEngine(t, func(t *testing.T, l *live) {
		r, server, pool := stored(l)
		bound(t, pool, server)
		if before := traces(t, pool); len(before) > 0 {
			t.Fatalf("the pool is in use: %q", before)
		}
		const runs, abreast = 20, 2
		var all sync.WaitGroup
		places := make(chan struct{}, abreast)
		for i := range runs {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				spec := l.spec("sleep")
				spec.Label.Attempt = i + 1
				after := rand.N(2500 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				began := time.Now()
				if _, err := r.Run(ctx, spec); sandbox.KindOf(err) != sandbox.Cancelled {
					t.Errorf("after %s: got %v, want cancelled", after, err)
				}
				t.Logf("cancelled after %s, ended %s later", after, time.Since(began)-after)
			})
		}
		all.Wait()
		var left []string
		if !testkit.Eventually(10*time.Second, func() bool { left = traces(t, pool); return len(left) == 0 }) {
			t.Errorf("left behind: %s", strings.Join(left, "\n"))
		}
	})
}
