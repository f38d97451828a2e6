package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/cluster"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// podRounds is how many runs on a cluster are measured: a kubelet looks at its
// containers once a second, so that few say nothing of the 95th percentile.
const podRounds = 20

// kubernetesRun compares a whole run on a cluster (upload, pod, fetch,
// extraction, gate, scanner, result, deletion) with a bare pod of the same image
// from its creation to Succeeded.
func kubernetesRun(ctx context.Context, b *bench) (result, error) {
	r, err := besidePods(ctx, b, func(string) []string { return []string{"inmate", "nothing"} })
	r.Goal, r.Met = "at most 100 ms more", r.Value <= 100
	return r, err
}

// kubernetesReach is the same beside a bare pod that has to reach the storage,
// as every run has: how long a cluster takes to give a pod its network is on
// both sides then.
func kubernetesReach(ctx context.Context, b *bench) (result, error) {
	r, err := besidePods(ctx, b, func(storage string) []string { return []string{"inmate", "reach", storage} })
	r.Goal, r.Met = "reported only", true
	return r, err
}

func besidePods(ctx context.Context, b *bench, bare func(storage string) []string) (r result, err error) {
	p, closing, err := openPods(ctx, b)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, closing()) }()
	spec, err := benchSpec(b)
	if err != nil {
		return result{}, err
	}
	argv := bare(p.storage.String())
	ours, theirs, err := pair(podRounds, runOf(ctx, p.runtime, spec), func() (time.Duration, error) {
		return p.cluster.Bare(ctx, p.image, argv...)
	})
	if err != nil {
		return result{}, err
	}
	return result{
		A:     withTail(sideOf("a run", "kubernetes.Runtime.Run over a package of two files, storage on this host", ours), ours),
		B:     withTail(sideOf("a bare pod", "the same image and limits, created to Succeeded: "+strings.Join(argv, " "), theirs), theirs),
		Value: median(ours) - median(theirs), Unit: "ms more (p50)",
	}, nil
}

// withTail adds the 95th percentile.
func withTail(s side, ms []float64) side {
	sorted := slices.Sorted(slices.Values(ms))
	s.P95 = sorted[(len(sorted)*95+99)/100-1]
	return s
}

// benchPods is a runtime over a namespace of its own, and what it uses.
type benchPods struct {
	cluster *cluster.Cluster
	runtime *kubernetes.Runtime
	image   string
	storage netip.AddrPort
}

func openPods(ctx context.Context, b *bench) (_ *benchPods, closing func() error, err error) {
	var undo []func() error
	undoAll := func() error {
		var errs []error
		for _, f := range slices.Backward(undo) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undoAll())
		}
	}()
	root, err := checkout(ctx)
	if err != nil {
		return nil, nil, err
	}
	storage, address, stop, err := benchStorage(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	undo = append(undo, stop)
	p := &benchPods{storage: address}
	p.cluster, err = cluster.Open(ctx, root, "bench-"+strings.ToLower(rand.Text()[:8]), address)
	if reason, is := strings.CutPrefix(fmt.Sprint(err), cluster.ErrNotRun.Error()+": "); is {
		return nil, nil, fmt.Errorf("%w: %s", errMissing, reason)
	}
	if err != nil {
		return nil, nil, err
	}
	undo = append(undo, func() error { return p.cluster.Close(context.WithoutCancel(ctx)) })
	if err := p.cluster.Guard(ctx); err != nil {
		return nil, nil, err
	}
	tree := filepath.Join(b.lab.Rooms, lab.Scanner)
	if p.image, err = p.cluster.Image(ctx, tree, "bench.local/inmate"); err != nil {
		return nil, nil, err
	}
	undo = append(undo, func() error { return p.cluster.Unload(context.WithoutCancel(ctx), p.image) })
	hop := bundle.NewHop(bundle.HopConfig{Runtime: kubernetes.Name, Leaf: storage, Prefix: bundle.DefaultPrefix})
	undo = append(undo, hop.Close)
	c, err := p.cluster.Config()
	if err != nil {
		return nil, nil, err
	}
	c.Image, c.Hop, c.Worker = p.image, hop, "heavy"
	// The storage's own address at another port, which nothing listens on and
	// the policy closes.
	c.Canaries = []netip.AddrPort{netip.AddrPortFrom(address.Addr(), 9)}
	if p.runtime, err = kubernetes.New(c); err != nil {
		return nil, nil, err
	}
	undo = append(undo, p.runtime.Close)
	return p, undoAll, nil
}

// checkout is the directory of go.work.
func checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// benchStorage is a MinIO on an address that pods reach.
func benchStorage(ctx context.Context, root string) (leaf *s3.Backend, address netip.AddrPort, stop func() error, err error) {
	host, err := outward()
	if err != nil {
		return nil, address, nil, err
	}
	binary, err := exec.CommandContext(ctx, "sh", filepath.Join(root, "scripts/tool.sh"), string(s3server.MinIO)).Output()
	if err != nil {
		return nil, address, nil, fmt.Errorf("%w: there is no MinIO here: %w", errMissing, err)
	}
	server, err := s3server.Launch(ctx, s3server.MinIO, strings.TrimSpace(string(binary)), s3server.Options{Host: host})
	if err != nil {
		return nil, address, nil, err
	}
	if leaf, err = s3.New(server.Config()); err != nil {
		return nil, address, nil, errors.Join(err, server.Remove())
	}
	return leaf, netip.MustParseAddrPort(server.Address()), func() error { return errors.Join(leaf.Close(), server.Remove()) }, nil
}

// outward is an address of this host that is not loopback.
func outward() (string, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("%w: this host has no address but loopback", errMissing)
}
