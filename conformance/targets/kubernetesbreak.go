package targets

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// podBreakage is what is wrong with one cluster of the suite's.
type podBreakage struct {
	breakage
	// edit changes every pod on its way to the API server, as an admission
	// webhook of the cluster's could.
	edit podEdit
	// keep has no pod deleted that still runs.
	keep bool
	// open is a namespace without network policies.
	open bool
	// inSession makes the edit in a session.
	inSession func(conformance.Setup) podEdit
}

// in is the breakage in a session.
func (p podBreakage) in(s conformance.Setup) podBreakage {
	if p.inSession != nil {
		p.edit = p.inSession(s)
	}
	return p
}

type podEdit func(*corev1.Pod)

// edits makes one edit of several.
func edits(list ...podEdit) podEdit {
	return func(p *corev1.Pod) {
		for _, edit := range list {
			edit(p)
		}
	}
}

// inContainer edits the pod's one container.
func inContainer(edit func(*corev1.Container)) podEdit {
	return func(p *corev1.Pod) { edit(&p.Spec.Containers[0]) }
}

// security edits the container's security context.
func security(edit func(*corev1.SecurityContext)) podEdit {
	return inContainer(func(c *corev1.Container) { edit(c.SecurityContext) })
}

func variable(name string) podEdit {
	return inContainer(func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: "x"}) })
}

// hostPath mounts a directory of the node's at a place.
func hostPath(from, to string, kind corev1.HostPathType) podEdit {
	return func(p *corev1.Pod) {
		const name = "of-the-node"
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: from, Type: &kind},
		}})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: to})
	}
}

// Edits of the pod, each of which takes one wall down.
var (
	podRootWritable = security(func(c *corev1.SecurityContext) { c.ReadOnlyRootFilesystem = new(false) })
	podVariable     = variable("LEAKED")
	// No policy selects a pod without the label's values.
	podOpenNetwork = func(p *corev1.Pod) { p.Labels[kubernetes.LabelNetwork] = "none" }
	podToken       = func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }
	podHostPIDs    = func(p *corev1.Pod) { p.Spec.HostPID = true }
	podHostIPC     = func(p *corev1.Pod) { p.Spec.HostIPC = true }
	podHostNetwork = func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	podNoNewPrivs  = security(func(c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = new(true) })
	podUnconfined  = func(p *corev1.Pod) {
		p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}
	podSomeCaps = security(func(c *corev1.SecurityContext) {
		c.Capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "NET_RAW"}
	})
	podUIDZero = func(p *corev1.Pod) {
		p.Spec.SecurityContext.RunAsNonRoot, p.Spec.SecurityContext.RunAsUser = new(false), new(int64(0))
	}
	// A root without capabilities could not read what belongs to the sandbox.
	podAsRoot   = edits(podUIDZero, podSomeCaps)
	podNoMemory = inContainer(func(c *corev1.Container) {
		delete(c.Resources.Limits, corev1.ResourceMemory)
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("64Mi")
	})
	podWorkNoSize  = func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir.SizeLimit = nil }
	podPrivileged  = security(func(c *corev1.SecurityContext) { c.Privileged, c.AllowPrivilegeEscalation = new(true), nil })
	podMoreScratch = func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "more", MountPath: "/var/tmp"})
	}
)

// podWalls are the edits that fail an assertion each.
var podWalls = map[assertion]podEdit{
	wire.AssertNetwork:      podOpenNetwork,
	wire.AssertReadOnlyRoot: podRootWritable,
	wire.AssertWorkDir:      podMoreScratch,
	wire.AssertEnvironment:  podVariable,
	// As root more than this would be writable; P03 has that.
	wire.AssertUnprivileged: podSomeCaps,
	// A token in the image would lie where the cluster mounts its own.
	wire.AssertCredentials:  podToken,
	wire.AssertPIDNamespace: podHostPIDs,
	wire.AssertMemory:       podNoMemory,
}

// broken makes a runtime and a room in which one assertion must fail.
func (b *kubernetesBase) broken(ctx context.Context, s conformance.Setup, id assertion) (sandbox.Runtime, sandbox.Room, error) {
	if id == wire.AssertSeccomp {
		return nil, sandbox.Room{}, unbreakable(gvisorKeeps[id])
	}
	if edit, ok := podWalls[id]; ok {
		return b.makeBroken(ctx, s, podBreakage{edit: edit})
	}
	how, commands, ok := brokenRoom(id)
	if !ok {
		return nil, sandbox.Room{}, keptPrivileges("a pod says")
	}
	r, room, err := b.makeBroken(ctx, s, podBreakage{breakage: how})
	room.Commands = append(room.Commands, commands...)
	return r, room, err
}

// makeBroken makes a runtime with something broken, and the room to probe.
func (b *kubernetesBase) makeBroken(ctx context.Context, s conformance.Setup, how podBreakage) (sandbox.Runtime, sandbox.Room, error) {
	room, err := b.room(ctx, s, how)
	if err != nil {
		return nil, room, err
	}
	r, err := b.make(ctx, s, how)
	return r, room, err
}

// smuggled is what a cluster's own admission webhooks make of pods, such as
// those that add sidecars, variables and volumes to every pod there is.
func (b *kubernetesBase) smuggled() []conformance.Smuggled {
	sidecar := func(p *corev1.Pod) {
		beside := p.Spec.Containers[0].DeepCopy()
		beside.Name, beside.Command = "sidecar", []string{"/usr/local/bin/another"}
		p.Spec.Containers = append(p.Spec.Containers, *beside)
	}
	list := []struct {
		name string
		edit podEdit
	}{
		{"hostNetwork: true", podHostNetwork},
		{"hostPID: true", podHostPIDs},
		{"privileged: true", podPrivileged},
		{"runAsUser: 0", podUIDZero},
		{"capabilities: {add: [DAC_OVERRIDE, NET_RAW]}", podSomeCaps},
		{"readOnlyRootFilesystem: false", podRootWritable},
		{"automountServiceAccountToken: true", podToken},
		{"env: AWS_SECRET_ACCESS_KEY", variable("AWS_SECRET_ACCESS_KEY")},
		{"env: DATABASE_URL", variable("DATABASE_URL")},
		{"io.batlehub/network: none", podOpenNetwork},
		{"no limit of memory", podNoMemory},
		{"a second writable volume", podMoreScratch},
		{"a sidecar that does not start", sidecar},
	}
	var all []conformance.Smuggled
	for _, l := range list {
		all = append(all, conformance.Smuggled{
			Name: "a webhook that adds " + l.name,
			Make: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, sandbox.Room, error) {
				return b.makeBroken(ctx, s, podBreakage{edit: l.edit})
			},
		})
	}
	return all
}
