package kubernetes

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"
)

// sight is a pod as it was seen last, or that it is gone.
type sight struct {
	pod  *corev1.Pod
	gone bool
}

// over says that nothing of the pod's runs any more.
func (s sight) over() bool {
	return s.gone || s.pod.Status.Phase == corev1.PodSucceeded || s.pod.Status.Phase == corev1.PodFailed
}

// restart is the least time between two watches of one pod.
const restart = time.Second

// follow watches a pod from s on until enough says so. A watch that is lost is
// taken up where it was; where the server does not remember that any more, the
// pod is asked for once, and watched from there. The error is ctx's, or one
// that trying again would not change.
func (p *pods) follow(ctx context.Context, s sight, enough func(sight) bool) (sight, error) {
	// The library logs what it recovers from.
	ctx = klog.NewContext(ctx, logr.Discard())
	for !enough(s) {
		err := p.watchOn(ctx, &s, enough)
		if err == nil || ctx.Err() != nil || !lost(err) {
			return s, cause(ctx, err)
		}
		if err = new(pause).sleep(ctx, restart, err); err == nil {
			s, err = p.look(ctx, s)
		}
		if err != nil {
			return s, cause(ctx, err)
		}
	}
	return s, nil
}

// cause is the error of what ended, which ctx's own end explains best.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// lost says whether the server no longer knows where a watch was, or can't say.
func lost(err error) bool {
	return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || transient(err)
}

// watchOn updates s by one watch until it is enough, or the watch can't go on.
func (p *pods) watchOn(ctx context.Context, s *sight, enough func(sight) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, s.pod.ResourceVersion, watcher{p, s.pod.Name})
	if err != nil {
		return err
	}
	// Its goroutine is over before this is.
	defer func() { cancel(); <-w.Done() }()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open {
				return apierrors.NewTimeoutError("the watch ended", 0)
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			if pod, is := e.Object.(*corev1.Pod); is {
				*s = sight{pod, e.Type == watch.Deleted}
			}
			if enough(*s) {
				return nil
			}
		}
	}
}

// watcher opens watches of one pod for client-go's RetryWatcher.
type watcher struct {
	pods *pods
	name string
}

// WatchWithContext implements cache.WatcherWithContext. That the server has
// forgotten the version is passed on as the event that ends a RetryWatcher,
// which would otherwise ask for it again forever.
func (w watcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	opened, err := w.pods.watch(ctx, w.name, o)
	if !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
		return opened, err
	}
	status := metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonGone, Message: err.Error()}
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Error, Object: &status}
	return watch.NewProxyWatcher(events), nil
}

// look asks for a pod until there is an answer.
func (p *pods) look(ctx context.Context, before sight) (sight, error) {
	for wait := (pause{}); ; {
		pod, err := p.get(ctx, before.pod.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && before.pod.UID != "" && pod.UID != before.pod.UID:
			before.gone = true
			return before, nil
		case err == nil:
			return sight{pod: pod}, nil
		case !transient(err):
			return before, err
		}
		if ended := wait.sleep(ctx, restart, err); ended != nil {
			return before, ended
		}
	}
}
