package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// sight is a pod as it was seen last, or that it is gone.
type sight struct {
	pod  *corev1.Pod
	gone bool
	// version is where a watch goes on. Without one a watch begins with what
	// there is.
	version string
}

func seen(pod *corev1.Pod) sight { return sight{pod: pod, version: pod.ResourceVersion} }

// over says that nothing of the pod's runs any more.
func (s sight) over() bool {
	return s.gone || s.pod.Status.Phase == corev1.PodSucceeded || s.pod.Status.Phase == corev1.PodFailed
}

// take takes in what a watch says.
func (s *sight) take(e watch.Event) error {
	pod, is := e.Object.(*corev1.Pod)
	switch {
	case e.Type == watch.Error:
		return apierrors.FromObject(e.Object)
	case !is || pod.ResourceVersion == "":
		return fmt.Errorf("the watch says %q of no pod", e.Type)
	case e.Type != watch.Bookmark:
		s.pod, s.gone = pod, e.Type == watch.Deleted
	}
	s.version = pod.ResourceVersion
	return nil
}

// restart is the least time between two watches of one pod that say nothing
// new.
const restart = time.Second

var (
	errEnded  = errors.New("the watch ended")
	errMissed = errors.New("the watch missed something")
)

// follow watches a pod from s on until enough says so. A watch that is lost is
// taken up where it was; where it brought nothing, or the server does not
// remember that place any more, the pod is asked for once, and watched from
// there. The error is ctx's, or one that trying again would not change.
func (p *pods) follow(ctx context.Context, s sight, enough func(sight) bool) (sight, error) {
	// The library logs what it recovers from.
	ctx = klog.NewContext(ctx, logr.Discard())
	for wait := (pause{next: restart}); !enough(s); {
		place := s.version
		err := p.watchOn(ctx, &s, enough)
		if err == nil || ctx.Err() != nil || denied(err) {
			return s, cause(ctx, err)
		}
		if news := s.version != place || s.gone; news && !forgotten(err) {
			wait = pause{next: restart}
			err = new(pause).sleep(ctx, firstPause, nil)
		} else {
			s, err = p.recover(ctx, &wait, s, err)
		}
		if err != nil {
			return s, cause(ctx, err)
		}
	}
	return s, nil
}

// recover looks at a pod whose watch was lost. A place that was forgotten and
// is still the pod's own would be forgotten again.
func (p *pods) recover(ctx context.Context, wait *pause, s sight, lost error) (sight, error) {
	if err := wait.sleep(ctx, restart, lost); err != nil {
		return s, err
	}
	now, err := p.look(ctx, s)
	if err == nil && forgotten(lost) && now.version == s.version {
		now.version = ""
	}
	return now, err
}

// cause is the error of what ended, which ctx's own end explains best.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// denied says that the API server lets nobody like this worker watch.
func denied(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && !unread(err)
}

// forgotten says whether the server no longer knows where a watch was.
func forgotten(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

// watchOn updates s by one watch until it is enough, or the watch can't go on.
// One that says nothing may be stalled somewhere on its way: the pod is asked
// for then, and a watch that has missed nothing is kept.
func (p *pods) watchOn(ctx context.Context, s *sight, enough func(sight) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := p.open(ctx, cancel, *s)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		quiet := time.NewTimer(p.silence)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open {
				return errEnded
			}
			if err := s.take(e); err != nil {
				return err
			}
			if enough(*s) {
				return nil
			}
		case <-quiet.C:
			if p.missed(ctx, s) {
				return errMissed
			}
		}
		quiet.Stop()
	}
}

// open opens a watch, and gives it up where no server answers: the context that
// a watch lives under bounds its opening too.
func (p *pods) open(ctx context.Context, giveUp func(), s sight) (watch.Interface, error) {
	late := time.AfterFunc(p.silence, giveUp)
	defer late.Stop()
	return p.watch(ctx, s.pod.Name, metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true})
}

// missed asks for a pod and says whether it is another than a watch has told.
func (p *pods) missed(ctx context.Context, s *sight) bool {
	now, err := p.glance(ctx, *s)
	if err != nil || !now.gone && now.pod.ResourceVersion == s.pod.ResourceVersion {
		return false
	}
	*s = now
	return true
}

// glance asks for a pod once.
func (p *pods) glance(ctx context.Context, before sight) (sight, error) {
	pod, err := p.get(ctx, before.pod.Name)
	switch {
	case notFound(err), err == nil && before.pod.UID != "" && pod.UID != before.pod.UID:
		before.gone = true
		return before, nil
	case err != nil:
		return before, err
	}
	return seen(pod), nil
}

// look asks for a pod until there is an answer.
func (p *pods) look(ctx context.Context, before sight) (sight, error) {
	for wait := (pause{}); ; {
		now, err := p.glance(ctx, before)
		if err == nil || !transient(err) {
			return now, err
		}
		if wait.sleep(ctx, restart, err) != nil {
			return before, err
		}
	}
}
