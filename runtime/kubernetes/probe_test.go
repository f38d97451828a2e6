package kubernetes

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// manifest is what a pod's agent is told.
func (b *bed) manifest(p *corev1.Pod) *wire.Manifest {
	r, _, err := b.bucket.Get(context.Background(), key(p.Spec.Containers[0].Command[2]))
	if err != nil {
		b.t.Error(err)
		return nil
	}
	document, err := io.ReadAll(r)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	m, err := wire.ParseManifest(document)
	if err != nil {
		b.t.Error(err)
	}
	return m
}

// probed answers a probe: every assertion holds, and the memory wall is not
// claimed where it is not asked for.
func (b *bed) probed(p *corev1.Pod) {
	m := b.manifest(p)
	seen := &wire.ProbeResult{UID: UID}
	for _, id := range wire.Assertions[1:] {
		v := wire.Verdict{ID: id, Outcome: wire.Pass, Detail: "it holds"}
		if id == wire.AssertMemory && !m.Probe.MemoryWall {
			v.Outcome = wire.NotClaimed
		}
		seen.Verdicts = append(seen.Verdicts, v)
	}
	result := &wire.Result{
		Wire: wire.Version, Agent: "test", Ending: wire.EndProbed, Probe: seen, Extraction: wire.Extraction{Notes: []wire.Note{}},
	}
	tar, _, err := wire.EncodeResult(result, nil, m.SealKey, []int64{64 << 10})
	if err == nil {
		err = b.bucket.Put(context.Background(), key(p.Spec.Containers[0].Command[4]), bytes.NewReader(tar), int64(len(tar)))
	}
	if err != nil {
		b.t.Error(err)
	}
	b.end(p.Name, corev1.ContainerStateTerminated{Reason: "Completed"})
}

func TestAProbeAsksForWhatAKubeletLeavesAndTheMemoryWall(t *testing.T) {
	for own, most := range map[bool]int64{false: 256, true: 1024} {
		b := newBed(t)
		b.config.OwnKernel = own
		b.server.kubelet = func(p *corev1.Pod) {
			b.schedule(p.Name)
			m := b.manifest(p)
			if !m.Probe.KubernetesEnv || !m.Probe.MemoryWall || m.Probe.OwnKernel != own || m.Network || len(m.Canaries) != 1 || m.Limits.MemoryMB != most {
				t.Errorf("own kernel %t: %+v, %+v", own, m.Probe, m)
			}
			if got := p.Spec.Containers[0].Resources.Limits.Memory().Value(); got != most<<20 {
				t.Errorf("the pod has %d bytes", got)
			}
			b.probed(p)
		}
		report, err := b.Probe(t.Context(), sandbox.Room{Scanner: "tool", Image: digest, Commands: []string{"tool"}})
		if err != nil || report.Err() != nil || report.UID != UID || report.Runtime != Name {
			t.Errorf("%+v, %v, %v", report, report.Err(), err)
		}
	}
}

// A node with cgroup v2 ends all of a container together: nobody is left to say
// that the wall held, and so a second pod says what else does.
func TestAPodThatIsEndedAtItsMemoryWallIsProbedAgain(t *testing.T) {
	b := newBed(t)
	var pods atomic.Int32
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		if pods.Add(1) == 1 {
			b.end(p.Name, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.Now()})
			return
		}
		b.probed(p)
	}
	report, err := b.Probe(t.Context(), sandbox.Room{Scanner: "tool", Image: digest})
	if err != nil || report.Err() != nil {
		t.Fatalf("%v, %v", report.Err(), err)
	}
	last := report.Verdicts[len(report.Verdicts)-1]
	if pods.Load() != 2 || last.ID != wire.AssertMemory || last.Outcome != wire.Pass || last.Detail != "a whole sandbox was ended when a child took more than 256 MiB" {
		t.Errorf("%d pods, %+v", pods.Load(), last)
	}
}

func TestAProbeThatNeverStartedIsAReportWithTheClustersWords(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) {
		b.server.change(p.Name, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = container0(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "no such name"}})
		})
	}
	report, err := b.Probe(t.Context(), sandbox.Room{Scanner: "tool", Image: digest})
	v, failed := report.Failed()
	if err != nil || !failed || v.ID != wire.AssertResult || report.Hint != noPull || report.Duration > time.Minute {
		t.Errorf("%+v, %v", report, err)
	}
}

// A room whose image takes long to pull may have longer, and one that is to be
// had at once need not wait.
func TestARoomSaysHowLongItsProbeMayTakeToStart(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(*corev1.Pod) {} // it stays pending
	room := sandbox.Room{Scanner: "tool", Image: digest, StartTimeout: time.Second}
	report, err := b.Probe(t.Context(), room)
	if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertResult || report.Duration > 15*time.Second {
		t.Errorf("%+v, %v", report, err)
	}
}

// Every right is tried, on a pod that there is not, and no pod is kept.
func TestADoctorTriesEveryVerbAndMakesNoPod(t *testing.T) {
	b := newBed(t)
	for _, a := range Examine(t.Context(), b.config) {
		if a.Fault != nil {
			t.Errorf("%s: %v", a.Name, a.Fault)
		}
	}
	for _, verb := range []string{"list", "get", "watch", "delete", "create"} {
		if b.server.asked(verb) == 0 {
			t.Errorf("it did not try to %s", verb)
		}
	}
}
