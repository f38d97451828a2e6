package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// examinePods has the server check the pods of runs and forget them again: by
// that the namespace, the service account, the classes, the quota and Pod
// Security are looked at as those of the runs would be. It ends with the first
// pod that the server refuses.
func (p *pods) examinePods(ctx context.Context, c Config, runs []sandbox.RunSpec) Aspect {
	if len(runs) == 0 {
		runs = []sandbox.RunSpec{{
			Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Limits: wire.DefaultLimits(),
			Timeout: bundle.ProbeTimeout, StartTimeout: time.Minute, Label: wire.Label{Scanner: "doctor"},
		}}
	}
	a := Aspect{Name: "pods"}
	var sizes, added []string
	for _, run := range runs {
		pod := examined(c, run)
		made, err := p.create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			a.Fault = apiFault("trying to create the pod of a run of "+run.Label.Scanner, err)
			return a
		}
		if n := len(made.Spec.Containers) + len(made.Spec.InitContainers); n != len(pod.Spec.Containers) {
			added = []string{fmt.Sprintf("; but something in the cluster adds containers to it (%d in all), and the probe will tell", n)}
		}
		if size := sizeOf(pod); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	a.Detail = fmt.Sprintf("the API server takes a run's pod of %s: namespace, service account, quota and Pod Security let it pass", strings.Join(sizes, ", and one of "))
	if c.RuntimeClass != "" {
		a.Detail += ", and there is a runtime class " + c.RuntimeClass
	}
	a.Detail += strings.Join(added, "")
	return a
}

// examined is the very pod of a run, but for its secrets and its image where no
// name of one is known, neither of which the server looks at.
func examined(c Config, run sandbox.RunSpec) *corev1.Pod {
	image := run.Image
	if image == "" {
		image = c.Image
	}
	if image == "" {
		image = "sandbox.invalid/none"
	}
	if run.Timeout <= 0 {
		run.Timeout = bundle.ProbeTimeout
	}
	run.Label.Worker, run.Label.Job, run.Label.Attempt = c.Worker, "doctor", 1
	pod := podManifest(c, run, image, urls{"https://sandbox.invalid/in", "https://sandbox.invalid/out"})
	pod.OwnerReferences = nil
	return pod
}

// sizeOf is what a pod asks for, in words.
func sizeOf(pod *corev1.Pod) string {
	limits := pod.Spec.Containers[0].Resources.Limits
	return fmt.Sprintf("%s memory and %s CPU", limits.Memory(), limits.Cpu())
}
