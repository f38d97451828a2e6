package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// keys are those of the bucket.
func (b *bed) keys() []string {
	var keys []string
	for o, err := range b.bucket.List(context.Background(), "") {
		if err != nil {
			b.t.Error(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// cancelledRun is a run that was cancelled and whose pod's deletion hangs until
// let is closed.
type cancelledRun struct {
	pod   *corev1.Pod
	let   chan struct{}
	ended chan error
}

func (b *bed) cancelled() *cancelledRun {
	r := &cancelledRun{let: make(chan struct{}), ended: make(chan error, 1)}
	b.verbs(map[string]answer{"delete": func(http.ResponseWriter, *http.Request) bool {
		<-r.let
		return false
	}})
	ctx, cancel := context.WithCancel(b.t.Context())
	pods := make(chan *corev1.Pod, 1)
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		if len(b.keys()) == 0 {
			b.t.Error("a run had no keys to begin with")
		}
		pods <- p
		cancel()
	}
	go func() {
		_, err := b.Run(ctx, b.spec())
		r.ended <- err
	}()
	r.pod = <-pods
	return r
}

// discarded waits until the keys are gone, while the deletion hangs.
func (b *bed) discarded(r *cancelledRun) {
	b.t.Helper()
	gone := func() bool { return b.server.asked("delete") > 0 && len(b.keys()) == 0 }
	if !testkit.Eventually(5*time.Second, gone) {
		b.t.Errorf("the keys are kept: %q", b.keys())
	}
	select {
	case err := <-r.ended:
		b.t.Fatalf("the run did not wait for its pod: %v", err)
	default:
	}
}

// A worker that is told to end while the API server hangs keeps no keys for that.
func TestKeysDoNotWaitForAPodWhoseDeletionHangs(t *testing.T) {
	b := newBed(t)
	r := b.cancelled()
	b.discarded(r)
	close(r.let)
	if err := <-r.ended; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	b.nothingLeft()
}

// An agent that is left meanwhile may store a result, which goes with the rest.
func TestAResultThatComesAfterTheKeysWentIsRemoved(t *testing.T) {
	b := newBed(t)
	r := b.cancelled()
	b.discarded(r)
	if err := b.bucket.Put(t.Context(), key(r.pod.Spec.Containers[0].Command[4]), strings.NewReader("late"), 4); err != nil {
		t.Error(err)
	}
	close(r.let)
	if err := <-r.ended; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	b.nothingLeft()
}

// Neither failure keeps the other half, and both are said.
func TestWhatCannotBeClearedIsNamedEachByItself(t *testing.T) {
	const keys = `the bundle may be left, for a sweep to remove: s3 storage: delete "sandbox/`
	forbidden := func(w http.ResponseWriter, _ *http.Request) bool {
		return fault(w, 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: User "w" cannot delete resource "pods" in API group "" in the namespace "sbx"`)
	}
	for _, c := range []struct {
		name     string
		deletion answer
		stuck    bool
	}{{"the pod", forbidden, false}, {"the keys", nil, true}, {"both", forbidden, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			var pod atomic.Pointer[corev1.Pod]
			b.server.kubelet = func(p *corev1.Pod) {
				pod.Store(p)
				b.bucket.stuck.Store(c.stuck)
				b.agent(p)
			}
			b.verbs(map[string]answer{"delete": c.deletion})
			_, e := b.run(b.spec())
			if e == nil || e.Kind != sandbox.Crashed {
				t.Fatalf("got %v", e)
			}
			name := pod.Load().Name
			if strings.Contains(e.Error(), "pod "+name+" may be left, for a sweep to remove") != (c.deletion != nil) {
				t.Errorf("the pod: %v", e)
			}
			if strings.Contains(e.Error(), keys) != c.stuck {
				t.Errorf("the keys: %v", e)
			}
			if podLeft, keysLeft := len(b.server.names()) > 0, len(b.keys()) > 0; podLeft != (c.deletion != nil) || keysLeft != c.stuck {
				t.Errorf("left: the pod %t, the keys %t", podLeft, keysLeft)
			}
			b.server.vanish(name)
			b.bucket.stuck.Store(false)
			if _, err := b.Sweep(t.Context(), sandbox.SweepPolicy{Worker: b.spec().Label.Worker}); err != nil {
				t.Error(err)
			}
		})
	}
}
