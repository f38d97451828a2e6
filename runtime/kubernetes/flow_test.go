package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestARunIsOnePodThatIsMadeWatchedAndTakenAway(t *testing.T) {
	b := newBed(t)
	var pod atomic.Pointer[corev1.Pod]
	b.server.kubelet = func(p *corev1.Pod) { pod.Store(p); b.agent(p) }
	b.answered()
	if want := []string{"create", "watch", "delete"}; !slices.Equal(b.server.requests, want) {
		t.Errorf("the server was asked to %q, want %q", b.server.requests, want)
	}
	if p := pod.Load(); !strings.HasPrefix(p.Name, "batlehub-sbx-gitleaks-") || p.GenerateName != "batlehub-sbx-gitleaks-" {
		t.Errorf("the pod is %s of %s", p.Name, p.GenerateName)
	}
}

// The sandboxes' uid is that of every pod of a node.
func TestAPodsProcessesAreBoundedByItsNode(t *testing.T) {
	b := newBed(t)
	seen := make(chan int64, 1)
	b.server.kubelet = func(p *corev1.Pod) {
		r, _, err := b.bucket.Get(context.Background(), key(p.Spec.Containers[0].Command[2]))
		if err != nil {
			t.Error(err)
			return
		}
		var m wire.Manifest
		if err := json.NewDecoder(r).Decode(&m); err != nil {
			t.Error(err)
		}
		seen <- m.Limits.Processes
		b.agent(p)
	}
	b.answered()
	if n := <-seen; n != 0 {
		t.Errorf("RLIMIT_NPROC is %d, want none", n)
	}
}

// A run asks for the gate: a policy can come to stand after its pod has started.
func TestARunWithoutNetworkNamesItsCanaries(t *testing.T) {
	for network, want := range map[bool]int{false: 1, true: 0} {
		b := newBed(t)
		got := make(chan []string, 1)
		b.server.kubelet = func(p *corev1.Pod) {
			r, _, err := b.bucket.Get(context.Background(), key(p.Spec.Containers[0].Command[2]))
			if err != nil {
				t.Error(err)
				return
			}
			var m wire.Manifest
			if err := json.NewDecoder(r).Decode(&m); err != nil {
				t.Error(err)
			}
			got <- m.Canaries
			b.agent(p)
		}
		spec := b.spec()
		spec.Network = network
		if _, fault := b.run(spec); fault != nil {
			t.Fatal(fault)
		}
		if canaries := <-got; len(canaries) != want {
			t.Errorf("network %t: canaries %q", network, canaries)
		}
	}
}

func TestALostWatchIsTakenUpWhereItWas(t *testing.T) {
	b := newBed(t)
	b.server.kubelet, b.server.cut = b.agent, 1
	b.answered()
	if n := b.server.asked("get"); n != 0 {
		t.Errorf("the pod was asked for %d times", n)
	}
	// Three events follow the making, each of which ended a watch.
	if n := b.server.asked("watch"); n > 5 {
		t.Errorf("%d watches: that is polling", n)
	}
}

// 410 Gone as an answer to a watch, and as an event of one.
func TestAWatchWhosePlaceIsForgottenAsksOnceAndGoesOn(t *testing.T) {
	for name, gone := range map[string]func(http.ResponseWriter){
		"an answer": func(w http.ResponseWriter) { fault(w, 410, metav1.StatusReasonExpired, "too old resource version") },
		"an event": func(w http.ResponseWriter) {
			say(w, 200, map[string]any{"type": "ERROR", "object": metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 410,
				Reason: metav1.StatusReasonGone, Message: "too old resource version",
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = b.agent
			b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" || b.server.asked("get") > 0 {
					return false
				}
				gone(w)
				return true
			}
			b.answered()
			if n := b.server.asked("get"); n != 1 {
				t.Errorf("the pod was asked for %d times, want once", n)
			}
		})
	}
}

func TestAServerThatIsBusyIsAskedAgainWhenItSays(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = b.agent
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || b.server.asked("create") > 1 {
			return false
		}
		// As the server's priority and fairness says it.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return true
	}
	began := time.Now()
	b.answered()
	if took := time.Since(began); took < time.Second {
		t.Errorf("it asked again after %s, want 1s", took)
	}
	if n := b.server.asked("create"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// Two pods at once can clash over their namespace's quota.
func TestAConflictIsTriedAgain(t *testing.T) {
	for _, code := range []int{409, 500, 503, 504} {
		b := newBed(t)
		b.server.kubelet = b.agent
		b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || b.server.asked("create") > 2 {
				return false
			}
			reasons := map[int]metav1.StatusReason{409: metav1.StatusReasonConflict, 500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout}
			return fault(w, code, reasons[code], "the object has been modified")
		}
		b.answered()
	}
}

// A pod whose making was not confirmed is the run's all the same, and no second
// one is made.
func TestAPodThatWasMadeWithoutAnAnswerIsFoundAgain(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = b.agent
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || b.server.asked("create") > 1 {
			return false
		}
		b.server.create(nowhere{http.Header{}}, r)
		drop(t, w)
		return true
	}
	b.answered()
}

// nowhere is an answer that nobody gets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

func drop(t *testing.T, w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	c.Close()
}

// Another's pod of the same name is left alone.
func TestANameThatIsTakenIsNotTheRuns(t *testing.T) {
	b := newBed(t)
	b.server.kubelet = b.agent
	var taken string
	b.server.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && taken == "" {
			for name := range b.names.taken {
				taken = name
			}
			other := podManifest(b.config, b.spec(), digest, urls{"other", "other"})
			other.Name, other.UID = taken, "other"
			b.server.mu.Lock()
			b.server.store("ADDED", other)
			b.server.mu.Unlock()
		}
		return false
	}
	b.answered()
	if left := b.server.names(); len(left) != 1 || !strings.HasPrefix(left[0], taken) {
		t.Errorf("%q are left, want the other's %s", left, taken)
	}
	b.server.vanish(taken)
}

func TestARunThatIsCancelledLeavesNothing(t *testing.T) {
	for name, at := range map[string]string{"while the pod is made": "create", "while it is watched": "watch"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			ctx, cancel := context.WithCancel(t.Context())
			b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
			b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case at == "create" && r.Method == http.MethodPost:
					// The request comes through, and its answer does not.
					b.server.create(nowhere{http.Header{}}, r)
					cancel()
					<-r.Context().Done()
					return true
				case at == "watch" && r.URL.Query().Get("watch") != "":
					cancel()
				}
				return false
			}
			_, err := b.Run(ctx, b.spec())
			if sandbox.KindOf(err) != sandbox.Cancelled {
				t.Errorf("got %v", err)
			}
			b.nothingLeft()
		})
	}
}

func TestClosingEndsRunsInFlight(t *testing.T) {
	b := newBed(t)
	running := make(chan struct{})
	b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name); close(running) }
	ended := make(chan error)
	go func() {
		_, err := b.Run(t.Context(), b.spec())
		ended <- err
	}()
	<-running
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	if _, err := b.Run(t.Context(), b.spec()); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("after Close: %v", err)
	}
}
