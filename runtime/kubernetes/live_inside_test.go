package kubernetes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

// A worker in a pod needs no configuration to find its cluster, its namespace
// and its rights: its service account's token says it all.
func TestLiveAWorkerInAPodHasAllItNeeds(t *testing.T) {
	l := newLive(t, options{})
	program := testkit.Build(t, "github.com/batleforc/batlehub-sandbox/runtime/kubernetes/testdata/inside")
	image := testkit.ClusterImage(t, "batlehub.test/inside", map[string]testkit.ImageFile{"/usr/bin/inside": {From: program, Mode: 0o755}})
	// A run's pod is all that the namespace enforces; a worker's differs in what
	// it runs and in its token.
	p := podManifest(l.config, l.spec("sleep"), image, urls{"https://sandbox.invalid/in", "https://sandbox.invalid/out"})
	p.Labels, p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = nil, "worker", new(true)
	p.Spec.Containers[0].Command = []string{"inside"}
	made, err := l.pods.create(t.Context(), p, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.pods.follow(t.Context(), sight{pod: made}, sight.over)
	if err != nil {
		t.Fatal(err)
	}
	log, err := l.client.Get().AbsPath("/api/v1/namespaces/" + l.namespace + "/pods/" + made.Name + "/log").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if want := "namespace " + l.namespace + "\nAPI server holds\nrights holds\npods holds\n"; string(log) != want || s.pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("%s: it said %q, want %q", s.pod.Status.Phase, log, want)
	}
	if err := l.pods.remove(t.Context(), s, time.Second); err != nil {
		t.Error(err)
	}
}
