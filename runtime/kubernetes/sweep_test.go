package kubernetes

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// leave leaves a pod of a worker, made that long ago with a deadline of one
// minute.
func (b *bed) leave(name, worker string, phase corev1.PodPhase, ago time.Duration) {
	spec := b.spec()
	spec.Label.Worker, spec.StartTimeout, spec.Timeout = worker, 30*time.Second, 30*time.Second
	p := podManifest(b.config, spec, digest, signed)
	p.Name, p.Spec.NodeName, p.Status.Phase = name, "node1", phase
	p.UID = "uid-" + p.UID
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(-ago))
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	b.server.store("ADDED", p)
}

func TestASweepAsksWhoseAPodIsAndHowOld(t *testing.T) {
	b := newBed(t)
	const after = 900 * time.Second
	b.leave("own-young", "w1", corev1.PodRunning, 0)
	b.leave("own-over", "w1", corev1.PodSucceeded, time.Hour)
	b.leave("foreign-young", "w2", corev1.PodRunning, 0)
	// Past the deadline of a minute by a second less, and a second more.
	b.leave("foreign-899", "w2", corev1.PodRunning, time.Minute+after-time.Second)
	b.leave("foreign-901", "w2", corev1.PodRunning, time.Minute+after+time.Second)
	report, err := b.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w1", OlderThan: after})
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	for _, o := range report.Removed {
		removed = append(removed, o.Kind+" "+o.Name+" "+o.Worker)
	}
	slices.Sort(removed)
	if want := []string{"pod foreign-901 w2", "pod own-over w1", "pod own-young w1"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	left := b.server.names()
	slices.Sort(left)
	if want := []string{"foreign-899 Running", "foreign-young Running"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	for _, name := range []string{"foreign-899", "foreign-young"} {
		b.server.vanish(name)
	}
}

// Without an age nothing of anybody else's is touched, and without an id
// nothing is this worker's.
func TestASweepWithoutAnswersRemovesNothing(t *testing.T) {
	b := newBed(t)
	b.leave("old", "w2", corev1.PodRunning, 240*time.Hour)
	for _, policy := range []sandbox.SweepPolicy{{}, {Worker: "w1"}} {
		if report, err := b.Sweep(t.Context(), policy); err != nil || len(report.Removed) > 0 {
			t.Errorf("%+v: %+v, %v", policy, report, err)
		}
	}
	b.server.vanish("old")
}

func TestASweepLeavesRunsInFlightAlone(t *testing.T) {
	b := newBed(t)
	swept := make(chan struct{})
	b.server.kubelet = func(p *corev1.Pod) {
		defer close(swept)
		report, err := b.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w1", OlderThan: time.Nanosecond})
		if err != nil || len(report.Removed) > 0 {
			t.Errorf("%+v, %v", report, err)
		}
		b.agent(p)
	}
	b.answered()
	<-swept
}

func TestASweepListsByLabelAndSaysWhyItCant(t *testing.T) {
	b := newBed(t)
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if got := r.URL.Query().Get("labelSelector"); got != "app.kubernetes.io/name=batlehub,app.kubernetes.io/component=sandbox,io.batlehub/worker" {
			t.Errorf("it selects %q", got)
		}
		return fault(w, 403, metav1.StatusReasonForbidden, "cannot list")
	}
	_, err := b.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w1"})
	if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeHostRefused {
		t.Errorf("got %v", err)
	}
}

func TestASweepRemovesBundlesToo(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
	key := "sandbox/w1/j1/gitleaks/1/manifest.json"
	if err := b.bucket.Put(t.Context(), key, http.NoBody, 0); err != nil {
		t.Fatal(err)
	}
	report, err := b.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w1"})
	if err != nil || len(report.Removed) != 1 || report.Removed[0].Kind != "bundle" {
		t.Errorf("%+v, %v", report, err)
	}
}
