// Package cluster_test shows what only a real cluster shows: scripts/cluster.sh
// starts it.
package cluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/cluster"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

const root = "../.."

// scene is a namespace without policies, a storage that its pods reach, and a
// listener that they must not.
type scene struct {
	*cluster.Cluster
	server  *s3server.Server
	runtime sandbox.Runtime
	image   string
	canary  *canary
}

func newScene(t *testing.T) *scene {
	t.Helper()
	host := routable(t)
	server := s3server.Start(t, s3server.MinIO, s3server.Options{Host: host.String()})
	s := &scene{server: server, canary: listen(t, host)}
	s.Cluster = openNamespace(t, "heavy", netip.MustParseAddrPort(server.Address()))
	s.runtime = s.over(t, bundle.NewHop(bundle.HopConfig{Runtime: kubernetes.Name, Leaf: server.Backend(t), Prefix: bundle.DefaultPrefix}))
	return s
}

// over is the runtime, over an image of the lab's room.
func (s *scene) over(t *testing.T, hop *bundle.Hop) sandbox.Runtime {
	t.Helper()
	dir := t.TempDir()
	l, err := lab.New(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(l.Rooms, lab.Scanner)
	if err := os.MkdirAll(filepath.Join(tree, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := s.Image(t.Context(), tree, "heavy.local/"+lab.Scanner+"-"+strings.ToLower(rand.Text()[:8]))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	s.image = image
	c.Image, c.Hop, c.Canaries, c.Worker = image, hop, []netip.AddrPort{s.canary.address}, "heavy"
	r, err := kubernetes.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), hop.Close(), s.Unload(context.Background(), image)); err != nil {
			t.Error(err)
		}
	})
	return r
}

// routable is an address of this host that pods reach.
func routable(t *testing.T) netip.Addr {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("not run: this host has no address but loopback")
	return netip.Addr{}
}

// canary is a listener that counts who comes.
type canary struct {
	address netip.AddrPort
	came    atomic.Int64
}

func listen(t *testing.T, host netip.Addr) *canary {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &canary{address: netip.MustParseAddrPort(l.Addr().String())}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.came.Add(1)
			_ = conn.Close()
		}
	}()
	return c
}

// awaitComer waits until a pod has come to the canary, which has to be before
// what it does has ended.
func awaitComer[T any](t *testing.T, c *canary, ended <-chan T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for c.came.Load() == 0 {
		select {
		case end := <-ended:
			t.Fatalf("it ended before its wall stood: %+v", end)
		case <-deadline:
			t.Fatal("nobody came to the canary: the pod was never open, which proves nothing")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// dial is a run whose scanner tries the canary itself, and says what came of it.
func (s *scene) dial(t *testing.T, network bool) sandbox.RunSpec {
	t.Helper()
	spec, err := lab.Spec("late-policy", "", nil, "inmate", "dial", s.canary.address.String())
	if err != nil {
		t.Fatal(err)
	}
	spec.Network = network
	return spec
}

type answer struct {
	out  sandbox.RunOutput
	err  error
	took time.Duration
}

func (s *scene) start(ctx context.Context, spec sandbox.RunSpec) <-chan answer {
	answers := make(chan answer, 1)
	began := time.Now()
	go func() {
		out, err := s.runtime.Run(ctx, spec)
		answers <- answer{out, err, time.Since(began)}
	}()
	return answers
}

// A policy takes effect when it is programmed, which can be after a pod has
// started. Here it is not even made until the pod has been seen to get out.
func TestAPolicyThatArrivesLateIsWaitedFor(t *testing.T) {
	s := newScene(t)
	answers := s.start(t.Context(), s.dial(t, false))
	awaitComer(t, s.canary, answers)
	applied := time.Now()
	if err := s.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
	guarded := time.Since(applied)
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	t.Logf("the policies were made in %s; the run ended %s after that, %s in all; the gate came %d times to the canary",
		guarded.Round(time.Millisecond), time.Since(applied.Add(guarded)).Round(time.Millisecond), a.took.Round(time.Millisecond), s.canary.came.Load())
	if a.out.Status == nil || *a.out.Status != 0 || strings.TrimSpace(string(a.out.Stdout)) == "connected" {
		t.Errorf("the scanner was let out: it says %q, and is %+v", a.out.Stdout, a.out.Result)
	}
}

// A probe waits for it like a run: a worker's start must not depend on how soon
// a policy is programmed.
func TestAPolicyThatArrivesLateFailsNoProbe(t *testing.T) {
	s := newScene(t)
	type probed struct {
		report sandbox.ProbeReport
		err    error
	}
	done := make(chan probed, 1)
	go func() {
		report, err := s.runtime.Probe(t.Context(), sandbox.Room{Scanner: lab.Scanner, Image: s.image, Commands: []string{"inmate"}})
		done <- probed{report, err}
	}()
	awaitComer(t, s.canary, done)
	if err := s.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := <-done
	if p.err == nil {
		p.err = p.report.Err()
	}
	if p.err != nil {
		t.Error(p.err)
	}
}

// Without any policy the gate never opens: the scanner is not started.
func TestAPolicyThatNeverArrivesIsAnErrorAndNoScan(t *testing.T) {
	s := newScene(t)
	a := <-s.start(t.Context(), s.dial(t, false))
	if a.err == nil {
		t.Fatalf("a run behind no wall has an answer: %q", a.out.Stdout)
	}
	t.Logf("after %s: %v", a.took.Round(time.Millisecond), a.err)
	if code := sandbox.CodeOf(a.err); code != sandbox.CodeNetworkOpen {
		t.Errorf("the code is %q", code)
	}
	if s.canary.came.Load() == 0 {
		t.Error("nobody came to the canary: the pod was not open, which proves nothing")
	}
}

// A run with network is not held back, and gets out: so the scanner of the test
// above would have, too.
func TestARunWithNetworkIsNotHeldBack(t *testing.T) {
	s := newScene(t)
	if err := s.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := <-s.start(t.Context(), s.dial(t, true))
	if a.err != nil {
		t.Fatal(a.err)
	}
	if strings.TrimSpace(string(a.out.Stdout)) != "connected" {
		t.Errorf("the scanner says %q", a.out.Stdout)
	}
}
