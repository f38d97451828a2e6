package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Sweep implements sandbox.Runtime. It removes pods, then the bundles of runs:
// the second are of no use without the first. What one kind can't be asked for
// does not keep the other.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, podErr := r.sweepPods(ctx, policy)
	bundles, hopErr := r.config.Hop.Sweep(ctx, policy)
	report.Removed = append(report.Removed, bundles.Removed...)
	return report, errors.Join(podErr, hopErr)
}

// sweepAtOnce is how many pods are being removed at a time: one that runs takes
// seconds to end.
const sweepAtOnce = 8

func (r *Runtime) sweepPods(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	orphans, err := r.orphans(ctx, policy)
	if err != nil {
		e := apiFault("listing pods", err)
		e.Runtime = Name
		return report, e
	}
	faults := make([]error, len(orphans))
	var all sync.WaitGroup
	turns := make(chan struct{}, sweepAtOnce)
	for n, p := range orphans {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, r.removal)
			defer cancel()
			faults[n] = r.pods.remove(ctx, sight{pod: p}, r.patience)
		})
	}
	all.Wait()
	for n, p := range orphans {
		if faults[n] == nil {
			report.Removed = append(report.Removed, sandbox.Orphan{
				Kind: "pod", Name: p.Name, Worker: p.Labels[LabelWorker], Age: time.Since(p.CreationTimestamp.Time),
			})
		}
	}
	if err := inOneLine(faults); err != nil {
		e := apiFault("sweeping pods", err)
		e.Kind, e.Runtime = sandbox.Crashed, Name
		return report, e
	}
	return report, nil
}

// inOneLine joins errors with something between them; nil if all are.
func inOneLine(errs []error) (all error) {
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// orphans lists the pods that nobody waits for any more.
func (r *Runtime) orphans(ctx context.Context, policy sandbox.SweepPolicy) ([]*corev1.Pod, error) {
	var found []*corev1.Pod
	err := r.pods.list(ctx, Selector, func(p *corev1.Pod) {
		if !r.names.has(p.Name) && isOrphan(p, policy, time.Now()) {
			found = append(found, p)
		}
	})
	return found, err
}

// isOrphan asks the two questions: whose is it, and how old.
func isOrphan(p *corev1.Pod, policy sandbox.SweepPolicy, now time.Time) bool {
	if worker := p.Labels[LabelWorker]; worker == policy.Worker && worker != "" {
		return true
	}
	return policy.OlderThan > 0 && now.Sub(deadline(p)) > policy.OlderThan
}
