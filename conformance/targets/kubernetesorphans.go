package targets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func (b *kubernetesBase) orphans() conformance.Orphans {
	return conformance.Orphans{Instance: podPrefix, Plant: b.plant, Bystanders: b.bystanders}
}

// plantedLife is a planted pod's own deadline, in seconds from when it was made.
const plantedLife = 60

// plant leaves a pod that waits for a node that there is not, which is as old
// as the suite's transport says. Keys can't be made old: their age is the
// server's to tell, and a spec of its own is about them.
func (b *kubernetesBase) plant(ctx context.Context, s conformance.Setup, l wire.Label, deadline time.Time) error {
	pod := waiting("batlehub-sbx-planted-", map[string]string{
		kubernetes.LabelName: kubernetes.AppName, kubernetes.LabelComponent: kubernetes.Component, kubernetes.LabelNetwork: kubernetes.NetworkStorage,
		kubernetes.LabelWorker: l.Worker, kubernetes.LabelJob: l.Job, kubernetes.LabelScanner: l.Scanner,
	})
	made := deadline.Add(-plantedLife * time.Second).UTC()
	pod.Annotations = map[string]string{agedAnnotation: made.Format(time.RFC3339)}
	pod.Spec.ActiveDeadlineSeconds = new(int64(plantedLife))
	_, err := b.createPod(ctx, s, pod)
	return err
}

// waiting is a pod that never starts and is of no weight meanwhile.
func waiting(generateName string, labels map[string]string) *corev1.Pod {
	few := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi"), corev1.ResourceCPU: resource.MustParse("1m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: generateName, Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			NodeSelector: map[string]string{"sandbox-conformance/node": "none"},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(kubernetes.UID)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "sandbox", Image: "sandbox-conformance.local/none", Resources: corev1.ResourceRequirements{Limits: few, Requests: few},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

func (b *kubernetesBase) createPod(ctx context.Context, s conformance.Setup, pod *corev1.Pod) (*corev1.Pod, error) {
	n, err := b.namespace(ctx, s, podBreakage{})
	if err != nil {
		return nil, err
	}
	return b.cluster.api.CoreV1().Pods(n.access.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// bystanders are pods and keys that look like the runtime's: by name, by
// another label, by all labels but one. Each is old.
func (b *kubernetesBase) bystanders(ctx context.Context, s conformance.Setup) (conformance.Bystanders, error) {
	own := map[string]string{kubernetes.LabelName: kubernetes.AppName, kubernetes.LabelComponent: kubernetes.Component, kubernetes.LabelWorker: s.Worker}
	without := func(name string) map[string]string {
		labels := map[string]string{}
		for k, v := range own {
			if k != name {
				labels[k] = v
			}
		}
		return labels
	}
	likes := map[string]map[string]string{
		"batlehub-sbx-bystander-": nil,
		"bystander-1-":            without(kubernetes.LabelComponent),
		"bystander-2-":            without(kubernetes.LabelName),
		"bystander-3-":            without(kubernetes.LabelWorker),
		"bystander-4-":            {kubernetes.LabelName: kubernetes.AppName, kubernetes.LabelComponent: "worker", kubernetes.LabelWorker: s.Worker},
		"bystander-5-":            {"worker": s.Worker, "io.batlehub/job": "o07-" + s.Token},
	}
	var out conformance.Bystanders
	var pods []*corev1.Pod
	for name, labels := range likes {
		pod := waiting(name, labels)
		pod.Annotations = map[string]string{agedAnnotation: time.Now().Add(-1000 * time.Hour).UTC().Format(time.RFC3339)}
		made, err := b.createPod(ctx, s, pod)
		if err != nil {
			return out, err
		}
		pods = append(pods, made)
		out.Names = append(out.Names, fmt.Sprintf("pod %s %v", made.Name, labels))
	}
	keys, err := plantKeysBeside(ctx, b.store, s)
	if err != nil {
		return out, err
	}
	out.Names = append(out.Names, keys...)
	out.Missing = func() ([]string, error) { return b.missing(ctx, s, pods, keys) }
	out.Remove = func() error {
		ctx := context.WithoutCancel(ctx)
		errs := []error{removeKeys(ctx, b.store, keys)}
		for _, pod := range pods {
			errs = append(errs, b.cluster.api.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		}
		return errors.Join(errs...)
	}
	return out, nil
}

func (b *kubernetesBase) missing(ctx context.Context, s conformance.Setup, pods []*corev1.Pod, keys []string) ([]string, error) {
	there, err := b.pods(ctx, s)
	if err != nil {
		return nil, err
	}
	missing := missingKeys(ctx, b.store, keys)
	for _, pod := range pods {
		if !slices.ContainsFunc(there, func(p corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil }) {
			missing = append(missing, "pod "+pod.Name)
		}
	}
	return missing, nil
}
