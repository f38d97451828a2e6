//go:build !nokubernetes

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is an API server that makes every pod and never starts one, and a
// storage beside it, both as far as sandboxctl's own part of a run goes. What
// real ones do is tested on real ones.
type cluster struct {
	t      *testing.T
	api    *httptest.Server
	s3     *httptest.Server
	config string

	// refuse answers the creation of a pod by a refusal with these words, if
	// there are any.
	refuse func(memory string) string
	// remove answers the deletion of a pod.
	remove func(w http.ResponseWriter, r *http.Request)
	// list answers the listing of pods, if it is not nil.
	list func(w http.ResponseWriter)
	// store answers the storage's requests, if it is not nil.
	store http.HandlerFunc

	mu   sync.Mutex
	made []map[string]any
	keys map[string]bool
}

// newCluster starts both. sandbox is more of [worker.sandbox].
func newCluster(t *testing.T, sandbox string) *cluster {
	t.Helper()
	c := &cluster{t: t, keys: map[string]bool{}}
	c.api = httptest.NewServer(http.HandlerFunc(c.serveAPI))
	c.s3 = httptest.NewUnstartedServer(http.HandlerFunc(c.serveS3))
	listener, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec // no configuration may name the loopback as a run's storage
	if err != nil {
		t.Fatal(err)
	}
	_ = c.s3.Listener.Close()
	c.s3.Listener = listener
	c.s3.Start()
	t.Cleanup(func() {
		for _, s := range []*httptest.Server{c.api, c.s3} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	kubeconfig := put(t, "kubeconfig", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"t"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"sbx"}}]}`, c.api.URL))
	c.config = put(t, "config.toml", fmt.Appendf(nil, `[worker.sandbox]
runtime = "kubernetes"
%s
[worker.sandbox.kubernetes]
kubeconfig = %q
[storage.backends.s3]
type = "s3"
endpoint = "http://%s:%d"
bucket = "bundles"
path_style = true
access_key = "KEYWORD"
secret_key = "KEYWORD"
[scanners.tool]
command = "tool"
image = "registry.test/tool@sha256:%s"
`, sandbox, kubeconfig, ownAddress(t), listener.Addr().(*net.TCPAddr).Port, strings.Repeat("a", 64)))
	return c
}

// ownAddress is an address of this host that is not its loopback's.
func ownAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("not run: this host has no address but its loopback's")
	return ""
}

func (c *cluster) serveAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/sbx/pods"), "/")
	switch {
	case r.Method == http.MethodPost:
		c.create(w, r)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodDelete && c.remove != nil && !dryRun(r):
		c.remove(w, r)
	case name == "" && c.list != nil:
		c.list(w)
	case name == "":
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	default:
		status(w, http.StatusNotFound, "NotFound", "there is none")
	}
}

// dryRun says whether a deletion is a doctor's.
func dryRun(r *http.Request) bool {
	var o struct{ DryRun []string }
	return json.NewDecoder(r.Body).Decode(&o) == nil && len(o.DryRun) > 0
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
}

func (c *cluster) create(w http.ResponseWriter, r *http.Request) {
	var pod map[string]any
	if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
		c.t.Error(err)
	}
	b, _ := json.Marshal(pod)
	_, memory, _ := strings.Cut(string(b), `"limits":{"cpu":"1","memory":"`)
	memory, _, _ = strings.Cut(memory, `"`)
	if c.refuse != nil {
		if words := c.refuse(memory); words != "" {
			status(w, http.StatusForbidden, "Forbidden", words)
			return
		}
	}
	meta := pod["metadata"].(map[string]any)
	meta["uid"], meta["resourceVersion"] = "u", "1"
	if r.URL.Query().Get("dryRun") == "" {
		c.mu.Lock()
		c.made = append(c.made, meta)
		c.mu.Unlock()
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(pod)
}

// pod is the name of the one pod that was made, empty while there is none.
func (c *cluster) pod() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == 0 {
		return ""
	}
	return c.made[0]["name"].(string)
}

func (c *cluster) serveS3(w http.ResponseWriter, r *http.Request) {
	if c.store != nil {
		c.store(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		c.keys[r.URL.Path] = true
		w.Header().Set("ETag", `"e"`)
	case http.MethodDelete:
		delete(c.keys, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, `<ListBucketResult><Name>bundles</Name></ListBucketResult>`)
	}
}

func (c *cluster) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

// A doctor asks for the pods that the configuration makes, and tells a quota
// that none fits into from one that others use.
func TestADoctorOfAClusterAsksForTheConfiguredPods(t *testing.T) {
	const quota = `pods "x" is forbidden: exceeded quota: sandbox, requested: limits.memory=%s, used: limits.memory=%s, limited: limits.memory=%s`
	for _, c := range []struct{ sandbox, used, limited, want string }{
		{"memory_limit_mb = 256\nmax_extracted_mb = 64", "", "", "PASS     pods             the API server takes a run's pod of 256Mi memory and 1 CPU"},
		{"memory_limit_mb = 6000", "0", "4000Mi", "FAIL     pods             the ResourceQuota sandbox can never hold one such pod: its limits.memory is 4000Mi, and the pod needs 6000Mi"},
		{"memory_limit_mb = 256\nmax_extracted_mb = 64", "3900Mi", "4000Mi", "FAIL     pods             the ResourceQuota sandbox is used up now: of its limits.memory 4000Mi are 3900Mi used, and the pod needs 256Mi"},
	} {
		cl := newCluster(t, c.sandbox)
		cl.refuse = func(memory string) string {
			if c.limited == "" {
				return ""
			}
			return fmt.Sprintf(quota, memory, c.used, c.limited)
		}
		r := sandboxctl(t, nil, "doctor", "--config", cl.config)
		if !strings.Contains(r.stdout, c.want) || (r.status == ExitClean) != (c.limited == "") {
			t.Errorf("%s: status %d, want %q in\n%s%s", c.sandbox, r.status, c.want, r.stdout, r.stderr)
		}
	}
}

// probing is a probe whose pod was made and never starts. It ends it.
func (c *cluster) probing(t *testing.T, signals ...syscall.Signal) (code int, said string, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := command(ctx, t, []string{"TMPDIR=" + t.TempDir()}, "probe", "--config", c.config)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(time.Minute, func() bool { return c.pod() != "" })
	begun := time.Now()
	for n, sig := range signals {
		if n > 0 {
			<-time.After(2 * repeated) // a later signal is what is tested
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), stderr.String(), time.Since(begun)
}

// A pod that can't be removed is named in the one line of the signal.
func TestAStoppedProbeNamesThePodThatItCouldNotRemove(t *testing.T) {
	c := newCluster(t, "")
	c.remove = func(w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusForbidden, "Forbidden", "you may not delete pods")
	}
	code, said, _ := c.probing(t, syscall.SIGTERM)
	if code != 143 || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "sandboxctl: stopped by SIGTERM; ") ||
		!strings.Contains(said, "pod "+c.pod()+" may be left") || !strings.Contains(said, "; what is left of worker sandboxctl-") || c.left() != 0 {
		t.Errorf("status %d, %d keys, %q", code, c.left(), said)
	}
}

// Whoever asks twice is not kept, and is told whose things are left where.
func TestASecondSignalEndsAProbeThatStillCleansUp(t *testing.T) {
	c := newCluster(t, "")
	c.remove = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	code, said, took := c.probing(t, syscall.SIGTERM, syscall.SIGINT)
	if code != 143 || strings.Count(said, "\n") != 1 || took > 10*time.Second ||
		!strings.HasPrefix(said, "sandboxctl: stopped by SIGTERM; a second signal came before all was cleaned up; what is left of worker sandboxctl-") ||
		!strings.Contains(said, "namespace sbx, bundles on s3://bundles/sandbox/") {
		t.Errorf("status %d after %s, %q", code, took, said)
	}
}

// A bucket that is not there is the storage's failure, said once.
func TestABucketThatIsNotThereIsSaidOnce(t *testing.T) {
	c := newCluster(t, "")
	c.store = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message><BucketName>bundles</BucketName></Error>`)
	}
	r := sandboxctl(t, []string{"TMPDIR=" + t.TempDir()}, "probe", "--config", c.config)
	const hint = `; bucket "bundles" has to exist: make it, or correct [storage.backends.s3] bucket`
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if r.status != ExitFailed || len(lines) != 2 || c.pod() != "" {
		t.Fatalf("status %d, %s", r.status, r.stderr)
	}
	for n, begins := range []string{
		"sandboxctl: warning: sweeping: sandbox kubernetes: crashed (storage): listing bundles: ", "sandboxctl: sandbox kubernetes: run ",
	} {
		if !strings.HasPrefix(lines[n], begins) || !strings.Contains(lines[n], "crashed (storage)") || !strings.HasSuffix(lines[n], hint) || strings.Count(lines[n], "NoSuchBucket") != 1 {
			t.Errorf("%s", lines[n])
		}
	}
}

// A worker that may not list pods scans as well as any other, and is told which
// right it lacks.
func TestAWorkerThatMayNotListPodsIsToldSo(t *testing.T) {
	c := newCluster(t, "")
	c.refuse = func(string) string { return "enough" }
	c.list = func(w http.ResponseWriter) {
		status(w, http.StatusForbidden, "Forbidden", `pods is forbidden: User "w" cannot list resource "pods" in API group "" in the namespace "sbx"`)
	}
	r := sandboxctl(t, []string{"TMPDIR=" + t.TempDir()}, "probe", "--config", c.config)
	warning, _, _ := strings.Cut(r.stderr, "\n")
	for _, want := range []string{"sandboxctl: warning: sweeping: sandbox kubernetes: refused (host_refused): listing pods: ", `cannot list resource "pods"`, "give the worker's service account create, get, list, watch and delete on pods"} {
		if !strings.Contains(warning, want) {
			t.Errorf("no %q in %s", want, r.stderr)
		}
	}
}
