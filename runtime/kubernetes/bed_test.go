package kubernetes

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// bucket is a memory backend that pretends to presign, and deletes nothing while
// it is stuck.
type bucket struct {
	*memory.Backend
	stuck *atomic.Bool
}

func (b bucket) Delete(ctx context.Context, key string) error {
	if b.stuck.Load() {
		return &storage.Error{Op: "delete", Backend: "s3", Key: key, Err: storage.ErrUnavailable}
	}
	return b.Backend.Delete(ctx, key)
}

func (bucket) PresignGet(_ context.Context, key string, _ time.Duration) (string, error) {
	return "https://s3.test/" + key + "?X-Amz-Signature=get", nil
}

func (bucket) PresignPut(_ context.Context, key string, _ time.Duration, _ int64) (string, error) {
	return "https://s3.test/" + key + "?X-Amz-Signature=put", nil
}

// bed is a runtime over an API server whose troubles the test decides, and
// whose pods' agents it plays. Nothing may be left on either side.
type bed struct {
	*Runtime
	t      *testing.T
	server *apiServer
	bucket bucket
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, server: newServer(t), bucket: bucket{memory.New(), &atomic.Bool{}}}
	hop := bundle.NewHop(bundle.HopConfig{Runtime: Name, Leaf: b.bucket})
	r, err := New(Config{API: b.server.api(), Namespace: "sbx", Hop: hop, Image: digest, Worker: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	r.removal, r.patience = 5*time.Second, 500*time.Millisecond
	b.Runtime = r
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := hop.Close(); err != nil {
			t.Error(err)
		}
		b.nothingLeft()
	})
	return b
}

func (b *bed) nothingLeft() {
	b.t.Helper()
	if left := b.server.names(); len(left) > 0 {
		b.t.Errorf("pods are left: %q", left)
	}
	for o, err := range b.bucket.List(context.Background(), "") {
		b.t.Errorf("a key is left: %s, %v", o.Key, err)
	}
	if len(b.names.taken) > 0 {
		b.t.Errorf("runs are in flight: %v", b.names.taken)
	}
}

func (b *bed) spec() sandbox.RunSpec {
	spec := podSpec()
	spec.StartTimeout, spec.Timeout = 10*time.Second, 10*time.Second
	return spec
}

// run is a run whose error has to be one of ours.
func (b *bed) run(spec sandbox.RunSpec) (sandbox.RunOutput, *sandbox.Error) {
	b.t.Helper()
	began := time.Now()
	out, err := b.Run(b.t.Context(), spec)
	if most := spec.StartTimeout + spec.Timeout + b.removal; time.Since(began) > most {
		b.t.Errorf("it took %s, want at most %s", time.Since(began), most)
	}
	if err == nil {
		return out, nil
	}
	e, is := err.(*sandbox.Error) //nolint:errorlint // it has to be one, and not to wrap one
	switch {
	case !is:
		b.t.Fatalf("%T: %v", err, err)
	case e.Runtime != Name || e.Run != spec.Label.String() || strings.Contains(e.Error(), "\n"):
		b.t.Errorf("not one line with the run's name: %v", e)
	case strings.Contains(e.Error(), "X-Amz-Signature"):
		b.t.Errorf("it has a presigned URL in it: %v", e)
	}
	return out, e
}

// key is the object's key of a presigned URL.
func key(signed string) string {
	u, _ := url.Parse(signed)
	return strings.TrimPrefix(u.Path, "/")
}

// schedule puts a pod on a node and starts its container.
func (b *bed) schedule(name string) {
	b.server.change(name, func(p *corev1.Pod) { p.Spec.NodeName = "node1" })
	b.server.change(name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = container0(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	})
}

func container0(s corev1.ContainerState) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: containerName, State: s}}
}

// end ends a pod's container.
func (b *bed) end(name string, t corev1.ContainerStateTerminated) {
	b.server.change(name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		if t.ExitCode == 0 {
			p.Status.Phase = corev1.PodSucceeded
		}
		p.Status.ContainerStatuses = container0(corev1.ContainerState{Terminated: &t})
	})
}

// agent does what an agent does: it answers.
func (b *bed) agent(p *corev1.Pod) {
	b.schedule(p.Name)
	b.answer(p)
	b.end(p.Name, corev1.ContainerStateTerminated{Reason: "Completed"})
}

// answer stores a result.
func (b *bed) answer(p *corev1.Pod) {
	command := p.Spec.Containers[0].Command
	r, _, err := b.bucket.Get(context.Background(), key(command[2]))
	if err != nil {
		b.t.Error(err)
		return
	}
	document, err := io.ReadAll(r)
	if err != nil {
		b.t.Error(err)
		return
	}
	m, err := wire.ParseManifest(document)
	if err != nil {
		b.t.Error(err)
		return
	}
	status := 3
	result := &wire.Result{Wire: wire.Version, Agent: "test", Ending: wire.EndExited, Status: &status, Extraction: wire.Extraction{Notes: []wire.Note{}}}
	tar, _, err := wire.EncodeResult(result, []byte("found"), m.SealKey, []int64{64 << 10})
	if err == nil {
		err = b.bucket.Put(context.Background(), key(command[4]), bytes.NewReader(tar), int64(len(tar)))
	}
	if err != nil {
		b.t.Error(err)
	}
}

// answered checks that a run brought its answer back.
func (b *bed) answered() {
	b.t.Helper()
	out, fault := b.run(b.spec())
	if fault != nil {
		b.t.Fatal(fault)
	}
	if out.Status == nil || *out.Status != 3 || string(out.Stdout) != "found" {
		b.t.Errorf("got %+v", out)
	}
}
