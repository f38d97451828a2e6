package kubernetes

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// The bounds of a pod's removal, which goes on after its run's context has
// ended.
const (
	removalTime = 45 * time.Second
	// endTime is how long a node may take to end a pod and say so, before the
	// pod is removed without its word.
	endTime = 20 * time.Second
)

// The graces of a deletion, in seconds. A pod that still runs gets one: at zero
// the object would vanish at once, and with it the network policy's hold on a
// process that runs on.
const (
	graceOver    = 0
	graceRunning = 1
)

// remove takes the run's pod away, under a context of its own.
func (i *instance) remove(ctx context.Context) error {
	s := i.sight()
	if !i.maybe || s.gone {
		return nil
	}
	r := i.runtime
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.removal)
	defer cancel()
	if s.pod.UID == "" {
		return r.pods.removeUnseen(ctx, s, r.patience)
	}
	return r.pods.remove(ctx, s, r.patience)
}

// removeUnseen takes away a pod whose making was never confirmed. A request
// that the server was still busy with can come through after the first look.
func (p *pods) removeUnseen(ctx context.Context, s sight, patience time.Duration) error {
	for wait := (pause{}); ; {
		gone, err := p.end(ctx, s.pod.Name, "", graceRunning)
		switch {
		case err != nil:
			return err
		case !gone:
			return p.await(ctx, s, patience)
		case wait.next >= 8*firstPause:
			return nil
		}
		if err := wait.sleep(ctx, firstPause, nil); err != nil {
			return fmt.Errorf("pod %s may have been made after all, for a sweep to remove: %w", s.pod.Name, err)
		}
	}
}

// remove takes a pod away: at once if it is over, and otherwise with the word
// of its node that it has ended.
func (p *pods) remove(ctx context.Context, s sight, patience time.Duration) error {
	if s.over() {
		_, err := p.end(ctx, s.pod.Name, s.pod.UID, graceOver)
		return err
	}
	gone, err := p.end(ctx, s.pod.Name, s.pod.UID, graceRunning)
	if gone || err != nil {
		return err
	}
	return p.await(ctx, s, patience)
}

// await waits until a pod that was asked to end is gone. One of which nobody
// says so is removed all the same, which is an error: nobody knows what still
// runs there.
func (p *pods) await(ctx context.Context, s sight, patience time.Duration) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := p.seeOver(within, s)
	if err != nil {
		s, err = p.lastLook(ctx, s)
	}
	if s.gone {
		return nil
	}
	_, fault := p.end(ctx, s.pod.Name, s.pod.UID, graceOver)
	switch {
	case fault != nil || s.over():
		return fault
	case err != nil:
		return fmt.Errorf("pod %s was removed by force: the API server did not say within %s whether it had ended: %w", s.pod.Name, patience, err)
	case s.pod.Spec.NodeName == "":
		return fmt.Errorf("pod %s was removed by force: no node had it, and the cluster kept it for more than %s", s.pod.Name, patience)
	}
	return fmt.Errorf("pod %s was removed by force: node %q did not confirm its end within %s", s.pod.Name, s.pod.Spec.NodeName, patience)
}

// lastLook asks for a pod once and for a short time, before something is
// concluded from what was seen of it: a watch can stand still without a word.
func (p *pods) lastLook(ctx context.Context, s sight) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, p.lookTime)
	defer cancel()
	return p.glance(ctx, s)
}

// seeOver looks at a pod and watches it until it is over. Where it may not be
// watched it is asked for from time to time.
func (p *pods) seeOver(ctx context.Context, s sight) (sight, error) {
	for wait := (pause{}); ; {
		now, err := p.look(ctx, s)
		if err == nil && !now.gone {
			now, err = p.follow(ctx, now, sight.over)
		}
		if err == nil || wait.sleep(ctx, restart, err) != nil {
			return now, err
		}
	}
}

// end asks for a pod's end until the server has heard it. gone says that there
// is no such pod.
func (p *pods) end(ctx context.Context, name string, uid types.UID, grace int64) (gone bool, err error) {
	for wait := (pause{}); ; {
		err := p.delete(ctx, name, uid, grace)
		switch {
		case err == nil:
			return false, nil
		case notFound(err), uid != "" && apierrors.IsConflict(err) && !unread(err):
			return true, nil
		case !transient(err):
			return false, fmt.Errorf("pod %s may be left, for a sweep to remove: %w", name, err)
		}
		if wait.sleep(ctx, firstPause, err) != nil {
			return false, fmt.Errorf("pod %s may be left, for a sweep to remove: %w", name, err)
		}
	}
}
