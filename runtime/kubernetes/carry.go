package kubernetes

import (
	"context"
	"errors"
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

// asked is an instance whose pod is asked for before a start is called late.
type asked struct{ *instance }

// Fetched says whether the pod runs, or has run.
func (a asked) Fetched() bool {
	return a.instance.Fetched() || a.ask(context.Background()) == nil && a.instance.Fetched()
}

// ask looks at the pod once more, if there is one.
func (i *instance) ask(ctx context.Context) error {
	s := i.sight()
	if s.pod.UID == "" {
		return nil
	}
	s, err := i.runtime.pods.lastLook(context.WithoutCancel(ctx), s)
	if err == nil {
		i.see(s)
	}
	return err
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
	ctx, cancel := j.clock.Watch(ctx, asked{i})
	defer cancel()
	answer, fault := i.run(ctx)
	fault = i.left(fault, i.clear(ctx))
	r.names.release(i.sight().pod.Name)
	return answer, redact(fault, i.urls)
}

// clear takes the run's pod away, and beside it the keys of its bundle, which
// nobody reads any more: a deletion that hangs is no reason to keep them. What of
// them is left once the pod is gone is the bundle's own to remove.
func (i *instance) clear(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	discarded := make(chan struct{})
	go func() {
		defer close(discarded)
		i.Discard(beside)
	}()
	err := i.remove(ctx)
	stop()
	<-discarded
	return err
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

// left is the fault of a run whose pod may be left: an answer is none then.
func (i *instance) left(ran *sandbox.Error, err error) *sandbox.Error {
	if err == nil {
		return ran
	}
	e := apiFault("the run has answered, and could not be cleaned up", err)
	e.Kind = sandbox.Crashed
	if ran == nil {
		return e
	}
	e.Detail = "cleaning up"
	if ran.Hint == "" && apierrors.IsForbidden(err) {
		ran.Hint = e.Hint
	}
	return fail.Left(ran, e)
}

// run makes the pod and watches it to its end.
func (i *instance) run(ctx context.Context) (bundle.Answer, *sandbox.Error) {
	if fault := i.create(ctx); fault != nil {
		return bundle.Answer{}, fault
	}
	s, err := i.runtime.pods.follow(ctx, i.sight(), func(s sight) bool {
		i.see(s)
		return settled(s)
	})
	switch {
	case err == nil:
		return collect(ctx, s, i.Remote)
	case ctx.Err() != nil:
		return i.outOfTime(ctx)
	}
	return bundle.Answer{}, apiFault("watching pod "+s.pod.Name, err)
}

// settled says that nothing more is to be waited for.
func settled(s sight) bool { return s.over() || hopeless(s.pod) }

// outOfTime is the end of a run whose pod was not seen over in time. It may
// have been over for long, with a watch that stood still.
func (i *instance) outOfTime(ctx context.Context) (bundle.Answer, *sandbox.Error) {
	if bundle.EndError(ctx, i).Kind == sandbox.Cancelled {
		return bundle.Answer{}, i.late(ctx, nil)
	}
	err := i.ask(ctx)
	if s := i.sight(); err == nil && settled(s) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
		defer cancel()
		return collect(ctx, s, i.Remote)
	}
	return bundle.Answer{}, i.late(ctx, err)
}

// create makes the pod, and asks again while the server can't be reached, can't
// do it now, or can't be understood. An earlier request of these may have come
// through: its pod is then the run's.
func (i *instance) create(ctx context.Context) *sandbox.Error {
	var said error
	for wait := (pause{}); ; {
		pod := i.sight().pod
		if ctx.Err() != nil {
			return i.late(ctx, said)
		}
		made, err := i.runtime.pods.create(ctx, pod, metav1.CreateOptions{})
		if err == nil {
			err = whole(made, pod.Name)
		}
		if apierrors.IsAlreadyExists(err) && !unread(err) {
			made, err = i.adopt(ctx, pod)
		}
		i.maybe = i.maybe || err == nil || ctx.Err() != nil || transient(err)
		switch {
		case err == nil:
			i.see(seen(made))
			return nil
		case ctx.Err() == nil && !transient(err):
			return apiFault("making a pod", err)
		}
		// That the time was up in the middle of a request is no answer.
		if !errors.Is(err, context.Cause(ctx)) {
			said = err
		}
		if wait.sleep(ctx, firstPause, err) != nil {
			return i.late(ctx, said)
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
// What the cluster said last tells why it took so long; last is why it said
// nothing more.
func (i *instance) late(ctx context.Context, last error) *sandbox.Error {
	e := bundle.EndError(ctx, i)
	s := i.sight()
	if e.Kind == sandbox.Cancelled {
		return e
	}
	switch {
	case s.pod.UID == "":
		e.Code, e.Hint, e.Err = sandbox.CodeNoEngine, silent, last
		e.Detail += ": the API server has not made its pod"
		return e
	case last != nil:
		e.Code, e.Hint, e.Err = sandbox.CodeNoEngine, silent, last
		e.Detail += fmt.Sprintf(": the API server does not say how pod %s is", s.pod.Name)
		return e
	case s.pod.DeletionTimestamp != nil:
		deleted(e, s.pod)
		e.Detail += ", and its node has not ended it"
		return e
	case e.Kind == sandbox.RunTimeout:
		e.Detail += fmt.Sprintf(": pod %s is %s and has not answered", s.pod.Name, s.pod.Status.Phase)
		e.Hint = unanswered
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
