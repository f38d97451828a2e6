package oci

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// stored is a live runtime with the storage transport, in a pool of its own.
func stored(l *live, change ...func(*Config)) (r *Runtime, server netip.AddrPort, pool netip.Prefix) {
	l.t.Helper()
	backend, server := testkit.S3(l.t, listener(l.t)[0].Addr())
	hop := bundle.NewHop(bundle.HopConfig{Runtime: Name, Leaf: backend})
	l.t.Cleanup(func() {
		if err := hop.Close(); err != nil {
			l.t.Error(err)
		}
	})
	pool = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 214, byte(rand.UintN(256)), 0}), 24)
	config := func(c *Config) {
		c.Transport, c.Hop, c.StoragePool, c.StorageEndpoints = Storage, hop, pool, []string{"http://" + server.String()}
	}
	return l.with(append([]func(*Config){config}, change...)...), server, pool
}

// firewall installs the ruleset under a name of the test's own.
func bound(t *testing.T, pool netip.Prefix, endpoints ...netip.AddrPort) {
	t.Helper()
	install(t, firewall.Zone{Pool: pool, Storage: endpoints})
}

func install(t *testing.T, zone firewall.Zone) {
	t.Helper()
	ruleset, err := firewall.Ruleset(zone)
	if err != nil {
		t.Fatal(err)
	}
	table := "batlehub_test_" + strings.ReplaceAll(strings.TrimSuffix(zone.Pool.String(), "/24"), ".", "_")
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(ruleset, firewall.Table, table))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("not run: nft can't change this host's rules: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("nft", "delete", "table", "inet", table).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func TestARunWithoutNetworkReachesTheStorageAndNothingElse(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		canary := listener(t)
		r, server, pool := stored(l, func(c *Config) { c.Canaries = canary })
		bound(t, pool, server)
		spec := l.spec("reach", server.String(), canary[0].String(), "example.com")
		spec.Bundle.Entries = []wire.Entry{{Path: wire.MustRelPath("pkg"), Kind: wire.Archive, URL: wire.ArtifactURL}}
		spec.Bundle.Artifact = bundle.BytesArtifact(tarOf(t, "hello", "world"))
		out, err := r.Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		want := server.String() + " true\n" + canary[0].String() + " false\nexample.com false\n"
		if string(out.Stdout) != want || out.Result.Extraction.Files != 1 {
			t.Errorf("got %q, %+v, want %q", out.Stdout, out.Result.Extraction, want)
		}
		if err := r.CloseJob(t.Context(), l.worker, spec.Label.Job); err != nil {
			t.Error(err)
		}
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
		if err != nil || report.Err() != nil {
			t.Errorf("the probe: %v, %v, %s", report.Err(), err, report.Hint)
		}
	})
}

// What a container knows of names is itself and the storage, and nothing of this
// host's: none of its /etc/hosts, its resolvers and its domains.
func TestAContainerKnowsItselfAndTheStorageByNameAndNobodyElse(t *testing.T) {
	const mine = "127.0.0.1 localhost sandbox\n"
	docker := func(own ...string) string {
		lines := []string{
			"127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback", "fe00::0 ip6-localnet", "ff00::0 ip6-mcastprefix",
			"ff02::1 ip6-allnodes", "ff02::2 ip6-allrouters",
		}
		return strings.Join(append(lines, own...), "\n") + "\n"
	}
	own := regexp.MustCompile(`(?m)^[0-9.]+ sandbox$`)
	eachEngine(t, func(t *testing.T, l *live) {
		var server netip.AddrPort
		stored, _, pool := stored(l, func(c *Config) {
			server = netip.MustParseAddrPort(strings.TrimPrefix(c.StorageEndpoints[0], "http://"))
		})
		stored.endpoints = []endpoint{{host: "localhost", port: server.Port()}}
		bound(t, pool, server)
		for _, c := range []struct {
			what           string
			runtime        *Runtime
			network        bool
			podman, docker string
		}{
			{"no network", l.Runtime, false, "", docker()},
			{"the engine's network", l.Runtime, true, mine, docker("IP sandbox")},
			{"the storage's network", stored, false, mine + "127.0.0.1 localhost\n", docker("127.0.0.1 localhost", "IP sandbox")},
		} {
			spec := l.spec("cat", "/etc/hosts")
			spec.Network = c.network
			out, err := c.runtime.Run(t.Context(), spec)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			got := own.ReplaceAllString(strings.ReplaceAll(string(out.Stdout), "\t", " "), "IP sandbox")
			if want := map[string]string{Podman: c.podman, Docker: c.docker}[l.engine]; got != want {
				t.Errorf("%s: /etc/hosts is\n%s\nwant\n%s", c.what, got, want)
			}
			if c.network {
				continue
			}
			spec = l.spec("cat", "/etc/resolv.conf")
			spec.Label.Attempt = 2
			out, err = c.runtime.Run(t.Context(), spec)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			for line := range strings.Lines(string(out.Stdout)) {
				if !strings.HasPrefix(line, "nameserver 127.0.0.") && !strings.HasPrefix(line, "options ") {
					t.Errorf("%s: /etc/resolv.conf has %s", c.what, line)
				}
			}
		}
	})
}

func TestWithoutTheFirewallTheProbeNamesTheCommandThatInstallsIt(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		r, _, _ := stored(l, func(c *Config) { c.Canaries = listener(t) })
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
		if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertNetwork || !strings.Contains(report.Hint, "sandboxctl network") {
			t.Errorf("got %+v, %q, %v", v, report.Hint, err)
		}
	})
}

// A run with network reaches what the firewall is told to let through, and
// nobody else: not this host beside its canary, and not by a network's name.
func TestARunWithNetworkInAPoolReachesWhatItIsAllowed(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		allowed, denied := listener(t)[0], listener(t)[0]
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 216, byte(rand.UintN(256)), 0}), 24)
		one, err := firewall.ParseDestination(allowed.String())
		if err != nil {
			t.Fatal(err)
		}
		around, err := allowed.Addr().Prefix(8)
		if err != nil {
			t.Fatal(err)
		}
		install(t, firewall.Zone{Pool: pool, Egress: []firewall.Destination{one, {Prefix: around, Port: denied.Port()}}})
		r := l.with(func(c *Config) {
			c.EgressPool, c.EgressAllow, c.Canaries = pool, []firewall.Destination{one}, []netip.AddrPort{allowed, denied}
		})
		spec := l.spec("reach", allowed.String(), denied.String(), "example.com")
		spec.Network = true
		out, err := r.Run(t.Context(), spec)
		if want := allowed.String() + " true\n" + denied.String() + " false\nexample.com false\n"; err != nil || string(out.Stdout) != want {
			t.Errorf("got %q, %v, want %q", out.Stdout, err, want)
		}
	})
}

func TestWithoutTheFirewallARunWithNetworkInAPoolIsRefused(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 217, byte(rand.UintN(256)), 0}), 24)
		r := l.with(func(c *Config) { c.EgressPool, c.Canaries = pool, listener(t) })
		spec := l.spec("reach", "192.0.2.1:9")
		spec.Network = true
		if out, err := r.Run(t.Context(), spec); sandbox.CodeOf(err) != sandbox.CodeNetworkOpen {
			t.Errorf("got %+v, %v", out, err)
		}
	})
}

// Two workers that have given their jobs the same id have containers of one
// name: who comes second has no answer, and the first one's run goes on.
func TestAnotherWorkersRunOfTheSameNameIsLeftAlone(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		first, second := l.with(), l.with()
		spec := l.spec("sleep")
		spec.Timeout = 6 * time.Second
		other := spec
		other.Label.Worker += "-other"
		host, fault := first.engine.find(t.Context())
		if fault != nil {
			t.Fatal(fault)
		}
		var err error
		var run sync.WaitGroup
		run.Go(func() { _, err = first.Run(t.Context(), spec) })
		if !testkit.Eventually(20*time.Second, func() bool { return first.running(&job{spec: spec, host: host}) }) {
			t.Error("the first run's container does not run")
		}
		if _, err := second.Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another worker") {
			t.Errorf("the second: %v", err)
		}
		run.Wait()
		if sandbox.KindOf(err) != sandbox.RunTimeout {
			t.Errorf("the first was to run until its time was up: %v", err)
		}
	})
}

func TestACancelledRunLeavesNoNetworkAndNoKey(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		r, server, pool := stored(l)
		bound(t, pool, server)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spec := l.spec("sleep")
		go func() {
			l.seen(ContainerName(spec.Label))
			cancel()
		}()
		if _, err := r.Run(ctx, spec); sandbox.KindOf(err) != sandbox.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
		l.gone(ContainerName(spec.Label))
	})
}
