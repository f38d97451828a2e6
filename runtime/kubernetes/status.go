package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// container status reasons, as kubelet and the container runtimes give them
// (https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go
// and kuberuntime; containerd's StartError).
var (
	imageReasons = []string{
		"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed",
	}
	// hopelessReasons are those that a kubelet does not get over by itself.
	hopelessReasons = []string{"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}
	startReasons    = []string{"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"}
)

const oomKilled = "OOMKilled"

// state is the state of a pod's container; all of it is nil until a kubelet has
// said something.
func state(p *corev1.Pod) corev1.ContainerState {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName {
			return c.State
		}
	}
	return corev1.ContainerState{}
}

// started says whether a pod's container runs, or has run.
func started(p *corev1.Pod) bool {
	s := state(p)
	return s.Running != nil || s.Terminated != nil && !slices.Contains(startReasons, s.Terminated.Reason) ||
		p.Status.Phase == corev1.PodRunning
}

// waiting says what keeps a pod from running, in the cluster's own words, and
// whether it is the image.
func waiting(p *corev1.Pod) (why string, image bool) {
	if w := state(p).Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
		return reason(w.Reason, w.Message), slices.Contains(imageReasons, w.Reason)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		for _, c := range p.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionFalse && c.Reason+c.Message != "" {
				return reason(c.Reason, c.Message), false
			}
		}
	}
	switch {
	case p.Spec.NodeName == "":
		return "no scheduler has looked at it yet", false
	case state(p).Waiting != nil:
		return fmt.Sprintf("node %s is pulling its image or making its container", p.Spec.NodeName), false
	}
	return fmt.Sprintf("node %s has not begun with it", p.Spec.NodeName), false
}

// hopeless says whether what a pod waits for won't come.
func hopeless(p *corev1.Pod) bool {
	w := state(p).Waiting
	return w != nil && (slices.Contains(hopelessReasons, w.Reason) || w.Reason == "CreateContainerError" && notAgent(w.Message) != "")
}

// disruption is why the cluster itself ends a pod: a drain, a preemption, a
// taint. It is empty where a person or a program did.
func disruption(p *corev1.Pod) string {
	if n := slices.IndexFunc(p.Status.Conditions, disrupts); n >= 0 {
		return reason(p.Status.Conditions[n].Reason, p.Status.Conditions[n].Message)
	}
	return reason(p.Status.Reason, p.Status.Message)
}

// disrupted says whether it was the cluster that ends a pod, or an eviction
// that somebody asked it for.
func disrupted(p *corev1.Pod) bool { return slices.ContainsFunc(p.Status.Conditions, disrupts) }

func disrupts(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
}

func reason(word, message string) string {
	message = strings.TrimSpace(message)
	switch {
	case word == "":
		return message
	case message == "":
		return word
	}
	return word + ": " + message
}
