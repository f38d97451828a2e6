package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// collect reads the result of a run whose pod is over. That it ended well and a
// result are needed: neither is enough alone, and whatever stands at the
// result's place otherwise, the agent did not get to say that it is the result.
func collect(ctx context.Context, s sight, remote *bundle.Remote) (bundle.Answer, *sandbox.Error) {
	if s.pod.Status.Phase != corev1.PodSucceeded {
		return bundle.Answer{}, broken(s)
	}
	result, stdout, err := remote.Result(ctx)
	if err == nil {
		return bundle.Answer{Result: result, Stdout: stdout}, nil
	}
	e := bundle.ReadError(err)
	if e.Code == sandbox.CodeNoResult {
		e.Err = nil
		e.Detail = fmt.Sprintf("pod %s ended well and no result came back", s.pod.Name)
		e.Hint = docs
	}
	return bundle.Answer{}, e
}

// broken is why a pod that is over, or won't ever run, has no answer.
func broken(s sight) *sandbox.Error {
	p, now := s.pod, state(s.pod)
	e := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Hint: docs}
	switch {
	case now.Waiting != nil && !s.over():
		neverRan(e, p, now.Waiting.Reason, now.Waiting.Message)
	case p.Status.Reason == "DeadlineExceeded":
		outlived(e, p)
	case now.Terminated != nil && now.Terminated.Reason == oomKilled:
		exited(e, p, now.Terminated)
	case s.gone || p.DeletionTimestamp != nil:
		deleted(e, p)
	case now.Terminated != nil && p.Status.Reason == "":
		exited(e, p, now.Terminated)
	default:
		e.Detail = fmt.Sprintf("pod %s failed: %s", p.Name, disruption(p))
		e.Hint = clusters
	}
	return e
}

// outlived is a pod that its own deadline ended before its worker did.
func outlived(e *sandbox.Error, p *corev1.Pod) {
	e.Kind, e.Code = sandbox.RunTimeout, ""
	if !started(p) {
		e.Kind = sandbox.StartTimeout
	}
	e.Detail = fmt.Sprintf("pod %s: %s", p.Name, reason(p.Status.Reason, p.Status.Message))
}

const clusters = "the node or the cluster ended it, and not its scanner; the run can be repeated"

// deleted is a pod that is gone and was not removed from here: by the cluster
// itself, which says so, or by somebody.
func deleted(e *sandbox.Error, p *corev1.Pod) {
	e.Kind, e.Code = sandbox.Crashed, sandbox.CodeNoResult
	e.Detail = fmt.Sprintf("pod %s was deleted by somebody else", p.Name)
	e.Hint = "the run can be repeated; look who deletes pods of this namespace"
	switch why := disruption(p); {
	case disrupted(p):
		e.Detail, e.Hint = fmt.Sprintf("pod %s was evicted: %s", p.Name, why), clusters
	case why != "":
		e.Detail += ": " + why
	}
}

// neverRan is a pod whose container can't be made.
func neverRan(e *sandbox.Error, p *corev1.Pod, word, message string) {
	e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
	e.Detail = fmt.Sprintf("pod %s can't run: %s", p.Name, reason(word, message))
	switch {
	case slices.Contains(imageReasons, word):
		e.Code, e.Hint = sandbox.CodeImageMissing, noPull
	case notAgent(message) != "":
		e.Code, e.Hint = sandbox.CodeNoAgent, notAgent(message)
	}
}

const noPull = "look that the registry has the image, that the nodes may pull it (image_pull_secrets), and that its name is right"

// exited is a pod whose container ended, and not well.
func exited(e *sandbox.Error, p *corev1.Pod, t *corev1.ContainerStateTerminated) {
	how := fmt.Sprintf("pod %s exited %d", p.Name, t.ExitCode)
	switch {
	case t.Reason == oomKilled:
		e.Code, e.OOMKilled, e.Signal = sandbox.CodeOOMKilled, true, fail.Signal(syscall.SIGKILL)
		e.Detail = fmt.Sprintf("pod %s was killed for want of memory, the agent with it", p.Name)
		e.Hint = "raise memory_limit_mb if this scanner needs more"
		return
	case slices.Contains(startReasons, t.Reason):
		neverRan(e, p, t.Reason, t.Message)
		return
	case t.ExitCode > 128:
		e.Signal = fail.Signal(syscall.Signal(t.ExitCode - 128))
		how = fmt.Sprintf("pod %s was ended by %s", p.Name, e.Signal)
		if why := disruption(p); why != "" {
			how += " (" + why + ")"
		}
	}
	if words := bundle.AgentExit(int(t.ExitCode)); words != "" {
		how += fmt.Sprintf(" (agent: %s)", words)
	}
	switch code := bundle.StorageExit(int(t.ExitCode)); code {
	case sandbox.CodeFetch:
		e.Code, e.Hint = code, unreachable
	case sandbox.CodeStorage:
		e.Code, e.Hint = code, unstored
	}
	e.Detail = how + " and no result came back"
}

const (
	unreachable = "a pod has to reach the storage, by the name that its endpoint has in the configuration: " +
		"look at the network policies (storageEgress), and that the name resolves in the sandbox namespace (minio.batlehub.svc, not minio)"
	unstored = "look at the storage, and at the way to it from the sandbox namespace; the run can be repeated"
	// An agent that has its bundle ends its scanner in time, and says so.
	unanswered = "the agent of a run that has its bundle answers before this: look whether a pod reaches the storage " +
		"(storageEgress, the endpoint's name), and whether its node stood still"
)
