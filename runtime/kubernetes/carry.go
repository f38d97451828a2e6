package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// instance is one run's pod. As a bundle's carrier it also says whether the pod
// has started: that the agent has then fetched its bundle in time only the
// agent knows, which keeps that time itself.
type instance struct {
	*bundle.Remote
	runtime *Runtime
	urls    urls
	// maybe says that there may be a pod, whatever the server answered.
	maybe bool

	mu   sync.Mutex
	seen sight
}

// Fetched says whether the pod was seen running.
func (i *instance) Fetched() bool {
	s := i.sight()
	return s.pod.UID != "" && started(s.pod)
}

func (i *instance) sight() sight {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen
}

func (i *instance) see(s sight) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = s
}

// carry runs a pod over a bundle and reads what the agent left in the storage.
func (r *Runtime) carry(ctx context.Context, j *job, remote *bundle.Remote) (bundle.Answer, *sandbox.Error) {
	i := &instance{Remote: remote, runtime: r, urls: urls{remote.In(), remote.Out()}}
	i.name(podManifest(r.config, j.spec, j.image, i.urls))
	ctx, cancel := j.clock.Watch(ctx, i)
	defer cancel()
	answer, fault := i.run(ctx)
	fault = fail.Left(fault, i.remove(ctx))
	r.names.release(i.sight().pod.Name)
	return answer, redact(fault, i.urls)
}

// name gives the pod the name that the server would have generated for it: it
// has to be known to find the pod again whose making was never confirmed.
func (i *instance) name(pod *corev1.Pod) {
	if pod.Name != "" {
		i.runtime.names.release(pod.Name)
	}
	pod.Name = pod.GenerateName + rand.String(suffixLength)
	i.runtime.names.claim(pod.Name)
	i.see(sight{pod: pod})
}

// run makes the pod and watches it to its end.
func (i *instance) run(ctx context.Context) (bundle.Answer, *sandbox.Error) {
	if fault := i.create(ctx); fault != nil {
		return bundle.Answer{}, fault
	}
	s, err := i.runtime.pods.follow(ctx, i.sight(), func(s sight) bool {
		i.see(s)
		return s.over() || hopeless(s.pod)
	})
	i.see(s)
	switch {
	case err == nil:
		return collect(ctx, s, i.Remote)
	case ctx.Err() != nil:
		return bundle.Answer{}, i.late(ctx, nil)
	}
	return bundle.Answer{}, apiFault("watching pod "+s.pod.Name, err)
}

// create makes the pod, and asks again while the server can't be reached or
// can't do it now. An earlier request of these may have come through: its pod
// is then the run's.
func (i *instance) create(ctx context.Context) *sandbox.Error {
	for wait := (pause{}); ; {
		pod := i.sight().pod
		if ctx.Err() != nil {
			return i.late(ctx, nil)
		}
		made, err := i.runtime.pods.create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = i.adopt(ctx, pod)
		}
		i.maybe = i.maybe || err == nil || ctx.Err() != nil || transient(err)
		switch {
		case err == nil:
			i.see(sight{pod: made})
			return nil
		case ctx.Err() == nil && !transient(err):
			return apiFault("making a pod", err)
		}
		if wait.sleep(ctx, firstPause, err) != nil {
			return i.late(ctx, err)
		}
	}
}

// adopt looks at the pod that has the run's name already. It is the run's if it
// has the run's URLs; if it is another's, the run gets another name.
func (i *instance) adopt(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	found, err := i.runtime.pods.get(ctx, pod.Name)
	if err != nil {
		return nil, err
	}
	if len(found.Spec.Containers) == 1 && slices.Equal(found.Spec.Containers[0].Command, pod.Spec.Containers[0].Command) {
		return found, nil
	}
	i.name(pod)
	return nil, apierrors.NewServerTimeout(corev1.Resource(resourcePods), "create", 0)
}

// late is why a run was ended: its time was up, or its caller's context ended.
// What the cluster said last tells why it took so long.
func (i *instance) late(ctx context.Context, last error) *sandbox.Error {
	e := bundle.EndError(ctx, i)
	s := i.sight()
	if e.Kind == sandbox.Cancelled {
		return e
	}
	switch {
	case s.pod.DeletionTimestamp != nil:
		deleted(e, s.pod)
		e.Detail += ", and its node has not ended it"
		return e
	case e.Kind == sandbox.RunTimeout:
		e.Detail += fmt.Sprintf(": pod %s is %s and has not answered", s.pod.Name, s.pod.Status.Phase)
		e.Hint = unanswered
		return e
	case s.pod.UID == "":
		e.Code, e.Hint, e.Err = sandbox.CodeNoEngine, silent, last
		e.Detail += ": the API server has not made its pod"
		return e
	}
	why, image := waiting(s.pod)
	e.Detail += fmt.Sprintf(": pod %s is %s: %s", s.pod.Name, s.pod.Status.Phase, why)
	e.Hint = "raise start_timeout_secs, or look at what the cluster waits for"
	if image {
		e.Code, e.Hint = sandbox.CodeImageMissing, noPull
	}
	return e
}
