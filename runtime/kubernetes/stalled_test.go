package kubernetes

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// hang is a request that gets no answer.
func hang(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

// silentWatch is a watch that opens and says nothing.
func silentWatch(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return hang(w, r)
}

// proxyPage is what a proxy says instead of an API server.
func proxyPage(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html>Please log in</html>")
		return true
	}
}

func garbage(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"ADD`)
	return true
}

func expired(w http.ResponseWriter, _ *http.Request) bool {
	return fault(w, 410, metav1.StatusReasonExpired, "too old resource version")
}

type answer = func(http.ResponseWriter, *http.Request) bool

// verbs has each verb answered in its own way.
func (b *bed) verbs(verbs map[string]answer) {
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		verb := map[string]string{"POST": "create", "GET": "get", "DELETE": "delete"}[r.Method]
		if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
		return verbs[verb] != nil && verbs[verb](w, r)
	}
}

// A watch that says nothing, or nothing that can be read, is no reason to call
// a pod late that has long ended.
func TestAStalledWatchDoesNotHideAnAnswer(t *testing.T) {
	for name, watch := range map[string]answer{
		"silent": silentWatch, "hanging": hang, "garbage": garbage, "a page": proxyPage(200), "a forbidden page": proxyPage(403),
		"a page that is not found": proxyPage(404), "expired": expired,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.server.kubelet = b.agent
			b.verbs(map[string]answer{"watch": watch})
			b.pods.silence = 2 * time.Second
			b.answered()
			if n := b.server.asked("watch") + b.server.asked("get"); n > 6 {
				t.Errorf("%d requests: that is polling", n)
			}
		})
	}
}

// looks has every look at a pod answered, and says when there have been n.
func (b *bed) looks(n int32) (answer, <-chan struct{}) {
	var count atomic.Int32
	done := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) bool {
		b.server.get(w, path.Base(r.URL.Path))
		if count.Add(1) == n {
			close(done)
		}
		return true
	}, done
}

// Before a run is called late its pod is asked for: there is no other word of
// the silent watch within this time.
func TestAPodIsAskedForBeforeItsRunIsCalledLate(t *testing.T) {
	for name, looks := range map[string]int32{"over at the start's end": 0, "over at the run's end": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			get, looked := b.looks(looks)
			b.server.kubelet = func(p *corev1.Pod) {
				b.schedule(p.Name)
				if looks > 0 {
					<-looked
				}
				b.answer(p)
				b.end(p.Name, corev1.ContainerStateTerminated{Reason: "Completed"})
			}
			b.verbs(map[string]answer{"watch": silentWatch, "get": get})
			spec := b.spec()
			spec.StartTimeout, spec.Timeout = 500*time.Millisecond, time.Second
			if out, fault := b.run(spec); fault != nil || string(out.Stdout) != "found" {
				t.Errorf("%+v, %v", out, fault)
			}
		})
	}
}

// Nothing is concluded from what was seen long ago when the server says nothing.
func TestAServerThatSaysNothingOfAPodIsNamed(t *testing.T) {
	for name, watch := range map[string]answer{"silent": silentWatch, "expired": expired} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.pods.lookTime = 300 * time.Millisecond
			b.server.kubelet = func(p *corev1.Pod) { b.schedule(p.Name) }
			b.verbs(map[string]answer{"watch": watch, "get": hang})
			spec := b.spec()
			spec.StartTimeout = 500 * time.Millisecond
			b.server.mute = true
			e := b.fails(spec, sandbox.StartTimeout, sandbox.CodeNoEngine,
				"the API server does not say how pod batlehub-sbx-gitleaks-", "; cleaning up: pod batlehub-sbx-gitleaks-",
				"the API server did not say within 500ms whether it had ended", silent)
			if strings.Contains(e.Error(), "Pending") || strings.Contains(e.Error(), "node ") {
				t.Errorf("it concludes: %v", e)
			}
		})
	}
}

// A watch that is quiet for its pod is: it is left as it is.
func TestAQuietWatchIsKept(t *testing.T) {
	b := newBed(t)
	b.pods.silence = 100 * time.Millisecond
	get, looked := b.looks(3)
	b.server.kubelet = func(p *corev1.Pod) { <-looked; b.agent(p) }
	b.verbs(map[string]answer{"get": get})
	b.answered()
	if n := b.server.asked("watch"); n != 1 {
		t.Errorf("%d watches, want 1", n)
	}
}

// A watch that brings nothing again and again is opened less and less often.
func TestAUselessWatchIsOpenedLessAndLessOften(t *testing.T) {
	b := newBed(t)
	b.verbs(map[string]answer{"watch": garbage})
	spec := b.spec()
	spec.StartTimeout = 4 * time.Second
	b.fails(spec, sandbox.StartTimeout, "", "no scheduler has looked at it")
	if n := b.server.asked("watch"); n > 4 {
		t.Errorf("%d watches in 4s", n)
	}
}

// half passes a request on and cuts the answer short.
func half(b *bed) answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		b.server.create(nowhere{http.Header{}}, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVer`)
		return true
	}
}

func TestAPodWhoseMakingIsAnsweredBadlyIsTheRuns(t *testing.T) {
	for name, answers := range map[string]func(b *bed) answer{
		"half an answer": half,
		"a page": func(b *bed) answer {
			return func(w http.ResponseWriter, r *http.Request) bool {
				b.server.create(nowhere{http.Header{}}, r)
				return proxyPage(201)(w, r)
			}
		},
		"another object": func(b *bed) answer {
			return func(w http.ResponseWriter, r *http.Request) bool {
				b.server.create(nowhere{http.Header{}}, r)
				say(w, 201, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.server.kubelet = b.agent
			bad := answers(b)
			b.verbs(map[string]answer{"create": func(w http.ResponseWriter, r *http.Request) bool {
				return b.server.asked("create") == 1 && bad(w, r)
			}})
			b.answered()
		})
	}
}

// Where nothing can be read of the pod, it is taken away by its name all the
// same, and named where that can't be.
func TestAPodThatMayHaveBeenMadeIsTakenAwayOrNamed(t *testing.T) {
	t.Run("taken away", func(t *testing.T) {
		b := newBed(t)
		b.verbs(map[string]answer{"create": half(b), "get": proxyPage(200)})
		b.server.mute = true
		spec := b.spec()
		spec.StartTimeout = time.Second
		b.fails(spec, sandbox.StartTimeout, sandbox.CodeNoEngine, "has not made its pod", silent)
		if b.server.asked("delete") == 0 {
			t.Error("nothing was deleted")
		}
	})
	for name, deletion := range map[string]answer{"no server": hang, "a page that is not found": proxyPage(404), "a page that is no conflict": proxyPage(409)} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.removal = 500 * time.Millisecond
			var pod atomic.Pointer[corev1.Pod]
			b.server.kubelet = func(p *corev1.Pod) { pod.Store(p) }
			b.verbs(map[string]answer{"create": half(b), "get": proxyPage(200), "delete": deletion})
			spec := b.spec()
			spec.StartTimeout = time.Second
			_, e := b.run(spec)
			if e == nil || e.Code != sandbox.CodeNoEngine || !strings.Contains(e.Error(), "; cleaning up: pod "+pod.Load().Name+" may be left, for a sweep to remove") {
				t.Errorf("got %v", e)
			}
			b.server.vanish(pod.Load().Name)
		})
	}
}

// What had an answer says so, and which right its removal lacks.
func TestACleanUpThatFailedIsNoRunThatFailed(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply answer
		code  sandbox.Code
		words string
	}{
		{"no right", func(w http.ResponseWriter, _ *http.Request) bool {
			return fault(w, 403, metav1.StatusReasonForbidden, `pods "x" is forbidden: User "w" cannot delete resource "pods" in API group "" in the namespace "sbx"`)
		}, sandbox.CodeHostRefused, "it may not delete pods: give"},
		{"no server", func(w http.ResponseWriter, _ *http.Request) bool {
			return fault(w, 503, metav1.StatusReasonServiceUnavailable, "slow down please")
		}, sandbox.CodeNoEngine, "slow down please; " + silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.removal = 500 * time.Millisecond
			var pod atomic.Pointer[corev1.Pod]
			b.server.kubelet = func(p *corev1.Pod) { pod.Store(p); b.agent(p) }
			b.verbs(map[string]answer{"delete": c.reply})
			_, e := b.run(b.spec())
			want := "the run has answered, and could not be cleaned up: pod " + pod.Load().Name + " may be left"
			if e == nil || e.Kind != sandbox.Crashed || e.Code != c.code || !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), c.words) {
				t.Errorf("got %v", e)
			}
			b.server.vanish(pod.Load().Name)
		})
	}
}
