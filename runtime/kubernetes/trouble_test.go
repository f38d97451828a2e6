package kubernetes

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// fails checks how a run failed, and that nothing is left of it.
func (b *bed) fails(spec sandbox.RunSpec, kind sandbox.Kind, code sandbox.Code, words ...string) *sandbox.Error {
	b.t.Helper()
	_, e := b.run(spec)
	if e == nil {
		b.t.Fatal("it did not fail")
	}
	if e.Kind != kind || e.Code != code {
		b.t.Errorf("got %s (%s), want %s (%s): %v", e.Kind, e.Code, kind, code, e)
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			b.t.Errorf("got %v, want %q in it", e, w)
		}
	}
	b.nothingLeft()
	return e
}

// What a server says to a pod's making, in the words of its admission plugins.
func TestAServerThatRefusesAPodIsReadPrecisely(t *testing.T) {
	for _, c := range []struct {
		name    string
		code    int
		reason  metav1.StatusReason
		message string
		kind    sandbox.Kind
		is      sandbox.Code
		words   string
	}{
		{"quota", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: exceeded quota: sandbox, requested: limits.memory=2Gi, used: limits.memory=6Gi, limited: limits.memory=6Gi`, sandbox.Crashed, sandbox.CodeHostRefused, "the ResourceQuota sandbox is used up now: of its limits.memory 6Gi are 6Gi used, and the pod needs 2Gi: "},
		{"a quota below one pod", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: exceeded quota: sandbox, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1Gi`, sandbox.Refused, sandbox.CodeConfig, "; raise in the ResourceQuota sandbox limits.memory to 2Gi or more, or lower memory_limit_mb"},
		{"a quota in other words", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: exceeded quota: sandbox`, sandbox.Crashed, sandbox.CodeHostRefused, "; the namespace's ResourceQuota is used up: raise it, or run less at a time"},
		{"a quota of something else", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: failed quota: sandbox: must specify requests.storage`, sandbox.Refused, sandbox.CodeConfig, "counts something"},
		{"pod security", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces`, sandbox.Refused, sandbox.CodeHostRefused, "Pod Security"},
		{"no right", 403, metav1.StatusReasonForbidden, `pods is forbidden: User "system:serviceaccount:b:worker" cannot create resource "pods" in API group "" in the namespace "sbx"`, sandbox.Refused, sandbox.CodeHostRefused, "it may not create pods: give the worker's service account create, get, list, watch and delete"},
		{"no runtime class", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found`, sandbox.Refused, sandbox.CodeConfig, "runtime_class"},
		{"no service account", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: error looking up service account sbx/batlehub-sandbox: serviceaccount "batlehub-sandbox" not found`, sandbox.Refused, sandbox.CodeConfig, "service_account"},
		{"no priority class", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: no PriorityClass with name low was found`, sandbox.Refused, sandbox.CodeConfig, "priority_class"},
		{"a namespace that ends", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: unable to create new content in namespace sbx because it is being terminated`, sandbox.Crashed, sandbox.CodeHostRefused, "being deleted"},
		{"no namespace", 404, metav1.StatusReasonNotFound, `namespaces "sbx" not found`, sandbox.Refused, sandbox.CodeConfig, "make the namespace"},
		{"an invalid pod", 422, metav1.StatusReasonInvalid, `Pod "x" is invalid: spec.containers[0].command: Invalid value: "` + "https://s3.test/" + `"`, sandbox.Refused, sandbox.CodeConfig, "[worker.sandbox.kubernetes]"},
		{"a LimitRange's least", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: minimum memory usage per Container is 1Gi, but request is 512Mi`, sandbox.Refused, sandbox.CodeConfig, "asks for more memory than memory_limit_mb"},
		{"a LimitRange's ratio", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: cpu max limit to request ratio per Container is 1, but provided ratio is 4.000000`, sandbox.Refused, sandbox.CodeConfig, "a ratio of 4"},
		{"a rule nobody here knows", 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: it is Monday`, sandbox.Refused, sandbox.CodeHostRefused, "it is Monday; that is an admission rule of the namespace"},
		{"a webhook", 400, metav1.StatusReasonBadRequest, `admission webhook "no.example" denied the request: not today`, sandbox.Refused, sandbox.CodeHostRefused, "not today; that is an admission rule"},
		{"a policy", 422, metav1.StatusReasonInvalid, `pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today`, sandbox.Refused, sandbox.CodeHostRefused, "not today; that is an admission rule"},
		{"no credentials", 401, metav1.StatusReasonUnauthorized, "Unauthorized", sandbox.Crashed, sandbox.CodeHostRefused, "credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
				return r.Method == http.MethodPost && fault(w, c.code, c.reason, c.message)
			}
			b.fails(b.spec(), c.kind, c.is, c.words)
			if n := b.server.asked("create"); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsAStartTimeout(t *testing.T) {
	b := newBed(t)
	b.server.http.Close()
	spec := b.spec()
	spec.StartTimeout = time.Second
	b.removal = time.Second
	_, e := b.run(spec)
	if e.Kind != sandbox.StartTimeout || e.Code != sandbox.CodeNoEngine || !strings.Contains(e.Error(), "connection refused") {
		t.Errorf("got %v", e)
	}
}

func TestAServerThatAnswersTooLateIsAStartTimeout(t *testing.T) {
	b := newBed(t)
	b.server.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		// A server sees that its client is gone once it has read the request.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
	spec := b.spec()
	spec.StartTimeout = 500 * time.Millisecond
	e := b.fails(spec, sandbox.StartTimeout, sandbox.CodeNoEngine, "has not made its pod; "+silent)
	if n := strings.Count(e.Error(), "had not fetched its bundle in time"); n != 1 {
		t.Errorf("it says the same thing %d times: %v", n, e)
	}
}

// What the cluster says last of a pod that never started is in the error.
func TestAPodThatNeverStartsSaysWhatItWaitedFor(t *testing.T) {
	scheduled := func(p *corev1.Pod) { p.Spec.NodeName = "node1" }
	waiting := func(word, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			scheduled(p)
			p.Status.ContainerStatuses = container0(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: word, Message: message}})
		}
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		code   sandbox.Code
		words  string
	}{
		{"no scheduler", func(*corev1.Pod) {}, "", "no scheduler has looked at it"},
		{"unschedulable", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory."}}
		}, "", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory."},
		{"an image that can't be pulled", waiting("ImagePullBackOff", `Back-off pulling image "registry.example/scanner"`), sandbox.CodeImageMissing, "ImagePullBackOff: Back-off pulling image"},
		{"a node that says nothing", scheduled, "", "node node1 has not begun with it"},
		{"a node that is at it", waiting("ContainerCreating", ""), "", "node node1 is pulling its image or making its container"},
		{"a network that is not ready", func(p *corev1.Pod) {
			scheduled(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: "CNI", Message: "no network"}}
		}, "", "CNI: no network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = func(p *corev1.Pod) { b.server.change(p.Name, c.change) }
			spec := b.spec()
			spec.StartTimeout = 300 * time.Millisecond
			b.fails(spec, sandbox.StartTimeout, c.code, "is Pending: "+c.words)
		})
	}
}

// What a kubelet does not get over is not waited for.
func TestAPodThatWontEverStartFailsAtOnce(t *testing.T) {
	for _, c := range []struct {
		word, message string
		code          sandbox.Code
	}{
		{"InvalidImageName", "couldn't parse image name", sandbox.CodeImageMissing},
		{"ErrImageNeverPull", "not present with pull policy of Never", sandbox.CodeImageMissing},
		{"CreateContainerConfigError", "image has non-numeric user", sandbox.CodeConfig},
		{"CreateContainerError", `exec: "batlehub-sandbox": executable file not found in $PATH`, sandbox.CodeNoAgent},
	} {
		t.Run(c.word, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = func(p *corev1.Pod) {
				b.server.change(p.Name, func(p *corev1.Pod) {
					p.Spec.NodeName = "node1"
					p.Status.ContainerStatuses = container0(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.word, Message: c.message}})
				})
			}
			began := time.Now()
			b.fails(b.spec(), sandbox.Refused, c.code, c.word, c.message)
			if time.Since(began) > 5*time.Second {
				t.Errorf("it took %s", time.Since(began))
			}
		})
	}
}

func TestAPodThatEndsBadlyIsReadFromItsContainer(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended corev1.ContainerStateTerminated
		kind  sandbox.Kind
		code  sandbox.Code
		words string
	}{
		{"out of memory", corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}, sandbox.Crashed, sandbox.CodeOOMKilled, "killed for want of memory"},
		{"killed", corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}, sandbox.Crashed, sandbox.CodeNoResult, "was ended by SIGKILL"},
		{"no manifest", corev1.ContainerStateTerminated{ExitCode: 65, Reason: "Error"}, sandbox.Crashed, sandbox.CodeFetch, "no usable manifest) and no result came back; a pod has to reach the storage"},
		{"no place for the result", corev1.ContainerStateTerminated{ExitCode: 66, Reason: "Error"}, sandbox.Crashed, sandbox.CodeStorage, "the result could not be stored) and no result came back; look at the storage"},
		{"no agent", corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: `exec: "batlehub-sandbox": executable file not found in $PATH: unknown`}, sandbox.Refused, sandbox.CodeNoAgent, "the image needs the agent"},
		{"another architecture", corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "exec /usr/local/bin/batlehub-sandbox: exec format error"}, sandbox.Refused, sandbox.CodeNoAgent, "another architecture"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name); b.end(p.Name, c.ended) }
			e := b.fails(b.spec(), c.kind, c.code, c.words)
			if e.OOMKilled != (c.code == sandbox.CodeOOMKilled) {
				t.Errorf("out of memory: %t", e.OOMKilled)
			}
		})
	}
}

// A result without a good end is not one, and a good end without a result.
func TestAGoodEndAndAResultAreNeeded(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		b.answer(p)
		b.end(p.Name, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"})
	}
	b.fails(b.spec(), sandbox.Crashed, sandbox.CodeNoResult, "exited 1 and no result came back")
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		b.end(p.Name, corev1.ContainerStateTerminated{Reason: "Completed"})
	}
	b.fails(b.spec(), sandbox.Crashed, sandbox.CodeNoResult, "ended well and no result came back")
}

// A child that outgrew its memory is the agent's to tell, which lives: then the
// container runtime says OOMKilled of a pod that succeeded.
func TestAnAgentThatOutlivesItsScannersMemoryAnswers(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		b.answer(p)
		b.end(p.Name, corev1.ContainerStateTerminated{Reason: "OOMKilled"})
	}
	b.answered()
}

func TestAPodThatTheClusterEndsIsNotItsScanners(t *testing.T) {
	failed := func(word, message string) func(b *bed, name string) {
		return func(b *bed, name string) {
			b.server.change(name, func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, word, message
			})
		}
	}
	for _, c := range []struct {
		name  string
		do    func(b *bed, name string)
		kind  sandbox.Kind
		code  sandbox.Code
		words string
	}{
		{"eviction", failed("Evicted", "The node was low on resource: memory."), sandbox.Crashed, sandbox.CodeNoResult, "Evicted: The node was low on resource: memory."},
		{"a node that shuts down", failed("Terminated", "Pod was terminated in response to imminent node shutdown."), sandbox.Crashed, sandbox.CodeNoResult, "imminent node shutdown"},
		{"a node without room", failed("OutOfmemory", "Node didn't have enough resource: memory"), sandbox.Crashed, sandbox.CodeNoResult, "OutOfmemory"},
		{"a deadline of its own", failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"), sandbox.RunTimeout, "", "DeadlineExceeded"},
		{"a drain", func(b *bed, name string) {
			b.server.change(name, func(p *corev1.Pod) {
				now := metav1.Now()
				p.DeletionTimestamp = &now
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}}
			})
			b.end(name, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"})
		}, sandbox.Crashed, sandbox.CodeNoResult, "was evicted: EvictionByEvictionAPI: Eviction API: evicting; the node or the cluster ended it"},
		{"somebody", func(b *bed, name string) { b.server.vanish(name) }, sandbox.Crashed, sandbox.CodeNoResult, "was deleted by somebody else"},
		{"somebody, with a grace", func(b *bed, name string) {
			b.server.change(name, func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now })
			b.end(name, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"})
		}, sandbox.Crashed, sandbox.CodeNoResult, "was deleted by somebody else"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name); c.do(b, p.Name) }
			b.fails(b.spec(), c.kind, c.code, c.words)
		})
	}
}

// A pod that went while nobody watched is found to be gone.
func TestAPodThatIsGoneWhileTheWatchWasLostIsMissed(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		b.server.vanish(p.Name)
	}
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" && fault(w, 410, metav1.StatusReasonExpired, "too old")
	}
	b.fails(b.spec(), sandbox.Crashed, sandbox.CodeNoResult, "was deleted by somebody else")
}

func TestARunThatIsOutOfTimeIsEndedWithItsNodesWord(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
	spec := b.spec()
	spec.StartTimeout, spec.Timeout = 300*time.Millisecond, 300*time.Millisecond
	e := b.fails(spec, sandbox.RunTimeout, "", "the run took longer than it may: pod batlehub-sbx-gitleaks-", "is Running and has not answered", "whether a pod reaches the storage")
	if strings.Contains(e.Error(), "by force") {
		t.Errorf("got %v", e)
	}
}

// A node that is lost confirms nothing. The object goes all the same, and the
// error says that nobody knows what still runs.
func TestAPodOfALostNodeIsRemovedByForceAndSaysSo(t *testing.T) {
	b := newBed(t)
	b.server.mute = true
	b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
	spec := b.spec()
	spec.StartTimeout, spec.Timeout = 300*time.Millisecond, 300*time.Millisecond
	b.fails(spec, sandbox.RunTimeout, "", `was removed by force: node "node1" did not confirm its end within 500ms`)
	// Taken from the cluster by its taints, and never ended.
	b.server.kubelet = func(p *corev1.Pod) {
		b.schedule(p.Name)
		b.server.change(p.Name, func(p *corev1.Pod) {
			now := metav1.Now()
			p.DeletionTimestamp = &now
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
		})
	}
	b.fails(spec, sandbox.Crashed, sandbox.CodeNoResult, "DeletionByTaintManager", "its node has not ended it")
}

func TestAWatchThatIsForbiddenIsARefusal(t *testing.T) {
	b := newBed(t)
	b.patience = 5 * time.Second
	b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" && fault(w, 403, metav1.StatusReasonForbidden, `cannot watch resource "pods"`)
	}
	b.fails(b.spec(), sandbox.Refused, sandbox.CodeHostRefused, "create, get, list, watch and delete")
}

// An answer whose pod can't be removed is no answer: something is left.
func TestAPodThatCantBeRemovedIsAnError(t *testing.T) {
	b := newBed(t)
	b.removal = 500 * time.Millisecond
	b.server.kubelet = b.agent
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodDelete && fault(w, 500, metav1.StatusReasonInternalError, "etcd is away")
	}
	_, e := b.run(b.spec())
	if e == nil || e.Kind != sandbox.Crashed || !strings.Contains(e.Error(), "may be left, for a sweep to remove") {
		t.Fatalf("got %v", e)
	}
	b.server.before = nil
	if report, err := b.Sweep(context.Background(), sandbox.SweepPolicy{Worker: "w1"}); err != nil || len(report.Removed) != 1 || report.Removed[0].Kind != "pod" {
		t.Errorf("%+v, %v", report, err)
	}
}
