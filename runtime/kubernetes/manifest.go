package kubernetes

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What a sandbox sees.
const (
	workDir        = "/work"
	pathEnv        = "/usr/local/bin:/usr/bin:/bin"
	agent          = "batlehub-sandbox"
	hostname       = "sandbox"
	containerName  = "sandbox"
	terminationLog = "/dev/termination-log"
	volumeName     = "work"
	kept           = ".kept"
)

// UID is the uid and gid that every sandbox sees itself as.
const UID = 65532

// urls are the two strings that a run's agent is given, and all that it is
// given.
type urls struct{ in, out string }

// podManifest is the pod of one run. It is a pure function: equal arguments
// give an equal pod, and nothing is looked at. Everything that Pod Security's
// restricted level asks for is said, and nothing left to a cluster's defaults.
func podManifest(c Config, spec sandbox.RunSpec, image string, u urls) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: generateName(spec.Label.Scanner), Namespace: c.Namespace,
			Labels: labels(spec.Label, spec.Network), Annotations: maps.Clone(c.Annotations),
			OwnerReferences: owners(c.Owner),
		},
		Spec: corev1.PodSpec{
			RestartPolicy:         corev1.RestartPolicyNever,
			ActiveDeadlineSeconds: new(lifetime(spec)),
			// Of a pod that somebody else ends, or its deadline: the agent
			// ignores a request to end.
			TerminationGracePeriodSeconds: new(int64(1)),
			ServiceAccountName:            c.ServiceAccount,
			AutomountServiceAccountToken:  new(false),
			// Or the environment has the names of the namespace's services.
			EnableServiceLinks: new(false),
			RuntimeClassName:   optional(c.RuntimeClass),
			// The default is the pod's name, which tells runs apart for the scanner.
			Hostname:          hostname,
			NodeSelector:      maps.Clone(c.NodeSelector),
			Tolerations:       slices.Clone(c.Tolerations),
			Affinity:          c.Affinity.DeepCopy(),
			PriorityClassName: c.PriorityClass,
			ImagePullSecrets:  pullSecrets(c.ImagePullSecrets),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(UID)), RunAsGroup: new(int64(UID)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(c, spec, image, u)},
			Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: mebibytes(extracted(spec))},
			}}},
		},
	}
}

func container(c Config, spec sandbox.RunSpec, image string, u urls) corev1.Container {
	memory := *mebibytes(spec.Limits.MemoryMB)
	return corev1.Container{
		Name: containerName, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:    []string{agent, "--in", u.in, "--out", u.out},
		Env:        []corev1.EnvVar{{Name: "HOME", Value: workDir}, {Name: "PATH", Value: pathEnv}},
		WorkingDir: workDir,
		// Every pod has one, and nobody reads it. The agent shuts it for the
		// scanner where it knows it to be.
		TerminationMessagePath: terminationLog, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceCPU: resource.MustParse("1")},
			Requests: corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceCPU: resource.MustParse("250m")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: mounts(c),
	}
}

// mounts are the work directory, which can be written, and the same once more
// to read wherever a node or a kernel puts something that could be written and
// counts against nothing: a pod can't do without, but it can have something
// else there.
func mounts(c Config) []corev1.VolumeMount {
	list := []corev1.VolumeMount{{Name: volumeName, MountPath: workDir}}
	for _, place := range []string{"/dev/shm", "/dev/mqueue"} {
		list = append(list, corev1.VolumeMount{Name: volumeName, MountPath: place, ReadOnly: true})
	}
	if c.OwnKernel {
		// gVisor's kernel puts a tmpfs over a /tmp that is empty. A room's leads
		// into the work directory; there a node makes it with something in it.
		list = append(list, corev1.VolumeMount{Name: volumeName, MountPath: "/tmp/" + kept, SubPath: "tmp/" + kept, ReadOnly: true})
	}
	return list
}

// lifetime is the pod's own deadline in seconds from its first moment on a
// node, for the case that its worker dies. One that lives ends it before.
func lifetime(spec sandbox.RunSpec) int64 {
	start := spec.StartTimeout
	if start <= 0 {
		start = bundle.DefaultStartTimeout
	}
	return int64(math.Ceil((start + spec.Timeout).Seconds()))
}

// extracted is the size of the work directory in MiB.
func extracted(spec sandbox.RunSpec) int64 { return (spec.Bundle.Policy.MaxBytes + 1<<20 - 1) >> 20 }

func mebibytes(n int64) *resource.Quantity {
	return resource.NewQuantity(n<<20, resource.BinarySI)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func owners(o *metav1.OwnerReference) []metav1.OwnerReference {
	if o == nil {
		return nil
	}
	return []metav1.OwnerReference{*o}
}

func pullSecrets(names []string) []corev1.LocalObjectReference {
	var list []corev1.LocalObjectReference
	for _, name := range names {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	return list
}

// deadline is when a pod is over by its own clock, which is what its age counts
// from.
func deadline(p *corev1.Pod) time.Time {
	end := p.CreationTimestamp.Time
	if s := p.Spec.ActiveDeadlineSeconds; s != nil {
		end = end.Add(time.Duration(*s) * time.Second)
	}
	return end
}
