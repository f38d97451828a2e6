package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// apiServer is an API server of pods in one namespace, over HTTP and in JSON,
// whose troubles a test decides. What a real one does is tested on a real one.
type apiServer struct {
	t    *testing.T
	http *httptest.Server

	mu       sync.Mutex
	version  int
	pods     map[string]*corev1.Pod
	events   []podEvent
	changed  chan struct{} // closed and replaced by every event
	requests []string
	// forgotten is the version up to which no watch can be taken up.
	forgotten int

	// before may answer a request in the server's place.
	before func(w http.ResponseWriter, r *http.Request) bool
	// kubelet is told of every pod that was made.
	kubelet func(*corev1.Pod)
	// mute is a node that confirms no pod's end.
	mute bool
	// cut ends every watch after so many events.
	cut int
}

type podEvent struct {
	version int
	kind    string
	pod     *corev1.Pod
}

const base = "/api/v1/namespaces/sbx/pods"

func newServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t, pods: map[string]*corev1.Pod{}, changed: make(chan struct{}), version: 100}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

func (s *apiServer) api() *rest.Config { return &rest.Config{Host: s.http.URL} }

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := map[string]string{"POST": "create", "GET": "list", "DELETE": "delete"}[r.Method]
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, base), "/")
	switch {
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case r.Method == http.MethodGet && name != "":
		verb = "get"
	}
	s.mu.Lock()
	s.requests = append(s.requests, verb)
	before := s.before
	s.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, base) || strings.Contains(name, "/") {
		s.t.Errorf("somebody asked for %s %s", r.Method, r.URL)
	}
	if before != nil && before(w, r) {
		return
	}
	switch verb {
	case "create":
		s.create(w, r)
	case "get":
		s.get(w, name)
	case "delete":
		s.remove(w, r, name)
	case "watch":
		s.watch(w, r)
	case "list":
		s.list(w)
	}
}

// asked is how often a verb was.
func (s *apiServer) asked(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if r == verb {
			n++
		}
	}
	return n
}

func say(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}

// fault is a server's answer that there is none.
func fault(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) bool {
	say(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message,
	})
	return true
}

func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	p := &corev1.Pod{}
	if err := json.NewDecoder(r.Body).Decode(p); err != nil {
		s.t.Error(err)
	}
	if r.URL.Query().Get("dryRun") != "" {
		say(w, http.StatusCreated, p)
		return
	}
	s.mu.Lock()
	if s.pods[p.Name] != nil {
		s.mu.Unlock()
		fault(w, 409, metav1.StatusReasonAlreadyExists, fmt.Sprintf("pods %q already exists", p.Name))
		return
	}
	p.UID, p.CreationTimestamp = types.UID(fmt.Sprintf("uid-%d", s.version)), metav1.Now()
	p.Status.Phase = corev1.PodPending
	s.store("ADDED", p)
	kubelet := s.kubelet
	s.mu.Unlock()
	say(w, 201, p)
	if kubelet != nil {
		go kubelet(p.DeepCopy())
	}
}

// store makes a pod's new version known; s.mu is held.
func (s *apiServer) store(kind string, p *corev1.Pod) {
	s.version++
	p.ResourceVersion = strconv.Itoa(s.version)
	p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	if kind == "DELETED" {
		delete(s.pods, p.Name)
	} else {
		s.pods[p.Name] = p
	}
	s.events = append(s.events, podEvent{s.version, kind, p.DeepCopy()})
	close(s.changed)
	s.changed = make(chan struct{})
}

// change changes a pod, if it is still there.
func (s *apiServer) change(name string, f func(*corev1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[name]; p != nil {
		p = p.DeepCopy()
		f(p)
		s.store("MODIFIED", p)
	}
}

// vanish removes a pod's object, whatever runs.
func (s *apiServer) vanish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[name]; p != nil {
		s.store("DELETED", p.DeepCopy())
	}
}

func (s *apiServer) get(w http.ResponseWriter, name string) {
	s.mu.Lock()
	p := s.pods[name]
	s.mu.Unlock()
	if p == nil {
		fault(w, 404, metav1.StatusReasonNotFound, fmt.Sprintf("pods %q not found", name))
		return
	}
	say(w, 200, p)
}

func (s *apiServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, p := range s.pods {
		list.Items = append(list.Items, *p)
	}
	say(w, 200, list)
}

func (s *apiServer) remove(w http.ResponseWriter, r *http.Request, name string) {
	o := metav1.DeleteOptions{}
	b, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(b, &o); err != nil || o.GracePeriodSeconds == nil {
		s.t.Errorf("a deletion says %s", b)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[name]
	switch {
	case p == nil:
		fault(w, 404, metav1.StatusReasonNotFound, fmt.Sprintf("pods %q not found", name))
		return
	case o.Preconditions != nil && *o.Preconditions.UID != p.UID:
		fault(w, 409, metav1.StatusReasonConflict, "the UID in the precondition is another")
		return
	}
	p = p.DeepCopy()
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if p.Status.Phase == corev1.PodRunning && *o.GracePeriodSeconds == 0 && !s.mute {
		s.t.Error("a running pod was removed without its node's word")
	}
	if over || *o.GracePeriodSeconds == 0 || p.Spec.NodeName == "" {
		s.store("DELETED", p)
		say(w, 200, p)
		return
	}
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, o.GracePeriodSeconds
	s.store("MODIFIED", p)
	say(w, 200, p)
	if !s.mute {
		time.AfterFunc(20*time.Millisecond, func() { s.vanish(name) })
	}
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	forgotten, left := seen > 0 && seen < s.forgotten, s.cut
	var first []podEvent
	if p := s.pods[name]; seen == 0 {
		seen = s.version
		if p != nil {
			first = append(first, podEvent{s.version, "ADDED", p})
		}
	}
	s.mu.Unlock()
	if forgotten {
		fault(w, 410, metav1.StatusReasonExpired, fmt.Sprintf("too old resource version: %d", seen))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		changed := s.changed
		news := slices.DeleteFunc(slices.Clone(s.events), func(e podEvent) bool { return e.version <= seen || e.pod.Name != name })
		s.mu.Unlock()
		news, first = append(first, news...), nil
		for _, e := range news {
			seen = e.version
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.pod})
			w.(http.Flusher).Flush()
			if left--; left == 0 {
				return
			}
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// names are the pods that there are.
func (s *apiServer) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, p := range s.pods {
		names = append(names, name+" "+string(p.Status.Phase))
	}
	return names
}
