package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	client "k8s.io/client-go/kubernetes"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

// Bare makes a pod of an image that executes argv under the limits and in the
// security context of a run's, and returns how long it took from there to
// Succeeded. The pod is deleted after that.
func (c *Cluster) Bare(ctx context.Context, image string, argv ...string) (took time.Duration, err error) {
	config, err := c.Config()
	if err != nil {
		return 0, err
	}
	config.API.QPS = -1
	api, err := client.NewForConfig(config.API)
	if err != nil {
		return 0, err
	}
	pods := api.CoreV1().Pods(c.Namespace)
	began := time.Now()
	pod, err := pods.Create(ctx, barePod(image, argv), metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("making a bare pod: %w", err)
	}
	defer func() {
		err = errors.Join(err, pods.Delete(context.WithoutCancel(ctx), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}()
	w, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(), ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		return 0, fmt.Errorf("watching a bare pod: %w", err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		seen, is := e.Object.(*corev1.Pod)
		switch {
		case is && seen.Status.Phase == corev1.PodSucceeded:
			return time.Since(began), nil
		case is && seen.Status.Phase == corev1.PodFailed:
			return 0, fmt.Errorf("a bare pod failed: %s", seen.Status.Message)
		}
	}
	return 0, errors.New("the watch of a bare pod ended before it did")
}

func barePod(image string, argv []string) *corev1.Pod {
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourceCPU: resource.MustParse("1")}
	requests := memory.DeepCopy()
	requests[corev1.ResourceCPU] = resource.MustParse("250m")
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bare-", Labels: map[string]string{kubernetes.LabelNetwork: kubernetes.NetworkStorage}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: kubernetes.DefaultServiceAccount,
			ActiveDeadlineSeconds: new(int64(360)), AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(kubernetes.UID)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "bare", Image: image, Command: argv, Env: []corev1.EnvVar{{Name: "PATH", Value: "/usr/local/bin:/usr/bin:/bin"}},
				Resources: corev1.ResourceRequirements{Limits: memory, Requests: requests},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: "/work"}},
			}},
			Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
		},
	}
}
