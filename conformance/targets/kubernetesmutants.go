package targets

import (
	"context"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// kubernetesMutants are runtimes over a cluster with one wall broken each, and
// the spec that must see it: one for each line of the pod that is a wall, and
// faults of the runtime itself. What the agent keeps is broken by bwrap's
// mutants.
func kubernetesMutants(b *kubernetesBase) []conformance.Mutant {
	pod := func(name, killer string, edit podEdit) conformance.Mutant {
		return b.mutant(name, killer, podBreakage{edit: edit})
	}
	// The agent's own gate would see an open network before any spec does.
	openly := func(how podBreakage) podBreakage {
		how.agent = noGate
		return how
	}
	list := []conformance.Mutant{
		b.mutant("no network policy selects the pod", "W70", openly(podBreakage{edit: podOpenNetwork})),
		b.mutant("a run without network has the policy of one with", "W78", openly(podBreakage{edit: func(p *corev1.Pod) {
			p.Labels[kubernetes.LabelNetwork] = kubernetes.NetworkEgress
		}})),
		b.mutant("there is no network policy", "W84", openly(podBreakage{open: true})),
		pod("the root is mounted read-write", "W54", podRootWritable),
		pod("the work directory has no size", "W113", podWorkNoSize),
		pod("a second place is writable", "W53", podMoreScratch),
		pod("the agent is given a variable of the cluster's", "P01", podVariable),
		pod("the service account's token is mounted", "W64", podToken),
		pod("capabilities can be had", "W50", podSomeCaps),
		pod("inside one is root", "W51", podAsRoot),
		pod("memory has no bound", "W106", podNoMemory),
		pod("the node's programs are in the room", "W63", hostPath("/usr/bin", "/usr/sbin", corev1.HostPathDirectory)),
		b.mutant("two runs share a directory", "W100", podBreakage{inSession: func(s conformance.Setup) podEdit {
			// As root, who owns it on a node that has a file system of its own.
			return edits(hostPath(openDirectory(s), "/var/tmp", corev1.HostPathDirectoryOrCreate), podAsRoot)
		}}),
		b.wrapped("a sweep takes the young of other workers", "O03", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &greedyPods{faulty{r}, b, func(p *corev1.Pod) bool { return p.Labels[kubernetes.LabelComponent] == kubernetes.Component }, s}
		}),
		b.wrapped("a sweep goes by the name", "O07", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &greedyPods{faulty{r}, b, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, "batlehub-sbx-bystander-") }, s}
		}),
		b.wrapped("a sweep takes nothing that is old", "O04", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &forgetful{faulty{r}} }),
		b.wrapped("an error of the runtime is an answer", "C13", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &optimist{faulty{r}} }),
		b.wrapped("every run is opened from the default image", "C39", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &imageless{faulty{r}} }),
		b.mutant("pods that run are not deleted", "C20", podBreakage{keep: true}),
		b.over("the size of a result is not looked at", "W88", func(leaf storage.Backend) storage.Backend { return smallHeads{leaf} }),
		b.wrapped("keys beside the prefix are swept", "O08", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &sweepsAll{faulty{r}, b.store.Backend, s}
		}),
	}
	if !b.NodeElsewhere {
		list = append(list, b.mutant("a directory of the node's is in the room", "W59", podBreakage{inSession: func(s conformance.Setup) podEdit {
			dir := filepath.Dir(s.Dir)
			return hostPath(dir, "/oldroot"+dir, corev1.HostPathDirectory)
		}}))
	}
	if b.onGVisor() {
		// The rest are of the node's kernel, which a scanner does not see there.
		return list
	}
	if !b.NodeElsewhere {
		list = append(list, pod("the IPC namespace is the node's", "W62", podHostIPC))
	}
	return append(list,
		pod("the pid namespace is the node's", "W40", podHostPIDs),
		pod("the node lets privileges be gained", "W110", podNoNewPrivs),
		pod("the node has no filter", "W110", podUnconfined),
	)
}

// mutant is a target with something broken.
func (b *kubernetesBase) mutant(name, killer string, broken podBreakage) conformance.Mutant {
	b.builder.variant(broken.agent)
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		return b.target(broken), nil
	}}
}

// wrapped is a target whose runtime has a fault in between.
func (b *kubernetesBase) wrapped(name, killer string, wrap func(conformance.Setup, sandbox.Runtime) sandbox.Runtime) conformance.Mutant {
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := b.target(podBreakage{})
		inner := t.New
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			r, err := inner(ctx, s)
			if err != nil {
				return nil, err
			}
			return wrap(s, r), nil
		}
		return t, nil
	}}
}

// over is a target whose hop has something between it and its backend.
func (b *kubernetesBase) over(name, killer string, wrap func(storage.Backend) storage.Backend) conformance.Mutant {
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := b.target(podBreakage{})
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return b.makeOver(ctx, s, podBreakage{}, wrap(b.store))
		}
		return t, nil
	}}
}

// greedyPods deletes every pod of this session's that it takes for an orphan,
// whoever's it is.
type greedyPods struct {
	faulty
	base  *kubernetesBase
	takes func(*corev1.Pod) bool
	setup conformance.Setup
}

// Sweep implements sandbox.Runtime.
func (g *greedyPods) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, err := g.Runtime.Sweep(ctx, policy)
	if err != nil {
		return report, err
	}
	pods, err := g.base.pods(ctx, g.setup)
	for _, pod := range pods {
		if g.takes(&pod) {
			_ = g.base.cluster.api.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		}
	}
	return report, err
}
