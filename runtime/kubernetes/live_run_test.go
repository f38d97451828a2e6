package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// requests writes down what is asked of an API server.
type requests struct {
	http.RoundTripper
	mu   sync.Mutex
	list []string
}

func (r *requests) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	what := q.Method + " " + q.URL.Path
	if q.URL.Query().Get("watch") != "" {
		what = "WATCH " + q.URL.Path
	}
	r.list = append(r.list, what)
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(q)
}

// A run under exactly the RFC's rights, in a namespace that enforces the
// restricted level and lets no run but to the storage.
func TestLiveARunBringsItsAnswerBack(t *testing.T) {
	asked := &requests{}
	l := newLive(t, options{config: func(c *Config) {
		c.API.Wrap(func(next http.RoundTripper) http.RoundTripper { asked.RoundTripper = next; return asked })
	}})
	spec := l.spec("cat", "/work/artifact/hello")
	spec.Bundle.Entries = []wire.Entry{{Path: wire.MustRelPath("artifact"), Kind: wire.Archive, URL: wire.ArtifactURL}}
	spec.Bundle.Artifact = bundle.BytesArtifact(tarOf(t, "hello", "world"))
	out, err := l.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if string(out.Stdout) != "world" || out.Result.Extraction.Files != 1 {
		t.Errorf("got %q, %+v", out.Stdout, out.Result.Extraction)
	}
	if err := l.CloseJob(t.Context(), l.worker, spec.Label.Job); err != nil {
		t.Error(err)
	}
	in := "/api/v1/namespaces/" + l.namespace + "/pods"
	if want := []string{"POST " + in, "WATCH " + in}; len(asked.list) != 3 || !slices.Equal(asked.list[:2], want) || !strings.HasPrefix(asked.list[2], "DELETE "+in+"/batlehub-sbx-tool-") {
		t.Errorf("the server was asked for %q", asked.list)
	}
}

func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLiveTheScannerSeesHomeAndPathAlone(t *testing.T) {
	l := newLive(t, options{})
	if got := l.must("env"); got != "HOME=/work\nPATH=/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("the scanner's environment is %q", got)
	}
	l.must("stdin")
}

func TestLiveTheProbePasses(t *testing.T) {
	l := newLive(t, options{})
	report, err := l.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v, %s", report.Err(), err, report.Hint)
	}
	for _, v := range report.Verdicts {
		t.Logf("%s %s %s", v.ID, v.Outcome, v.Detail)
		if v.Outcome != wire.Pass {
			t.Errorf("%s: %s", v.ID, v.Outcome)
		}
	}
}

// A kernel of gVisor's around each scan, and the worker outside of it.
func TestLiveTheProbePassesUnderGVisor(t *testing.T) {
	l := newLive(t, options{config: func(c *Config) { c.RuntimeClass, c.OwnKernel = "runsc", true }})
	if err := l.client.Get().AbsPath("/apis/node.k8s.io/v1/runtimeclasses/runsc").Do(t.Context()).Error(); err != nil {
		t.Skipf("not run: the cluster has no runtime class runsc: %v", err)
	}
	report, err := l.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v, %s", report.Err(), err, report.Hint)
	}
	for _, v := range report.Verdicts {
		t.Logf("%s %s %s", v.ID, v.Outcome, v.Detail)
	}
	if got := l.must("cat", "/proc/version"); !strings.Contains(strings.ToLower(got), "gvisor") {
		t.Errorf("the kernel is %q", got)
	}
}

// Without a policy the probe sees an open network, and so does each run.
func TestLiveAClusterThatEnforcesNoPolicyFailsTheProbe(t *testing.T) {
	l := newLive(t, options{unguarded: true})
	report, err := l.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
	v, failed := report.Failed()
	if err != nil || !failed || v.ID != wire.AssertNetwork || !strings.Contains(report.Hint, "NetworkPolicies") {
		t.Errorf("got %+v, %q, %v", v, report.Hint, err)
	}
	_, err = l.Run(t.Context(), l.spec("env"))
	if sandbox.CodeOf(err) != sandbox.CodeNetworkOpen {
		t.Errorf("a run came to %v", err)
	}
}

func (l *live) fails(spec sandbox.RunSpec, kind sandbox.Kind, code sandbox.Code, words ...string) {
	l.t.Helper()
	began := time.Now()
	_, err := l.Run(l.t.Context(), spec)
	l.t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
	if sandbox.KindOf(err) != kind || sandbox.CodeOf(err) != code {
		l.t.Errorf("want %s (%s)", kind, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			l.t.Errorf("want %q in it", w)
		}
	}
	l.nothingLeft()
}

func TestLiveEveryFailureIsToldApart(t *testing.T) {
	l := newLive(t, options{})
	t.Run("a scanner that outgrows its memory", func(t *testing.T) {
		l.t = t
		l.fails(l.spec("eat"), sandbox.Crashed, sandbox.CodeOOMKilled)
	})
	t.Run("a scanner that hangs", func(t *testing.T) {
		l.t = t
		spec := l.spec("sleep")
		spec.StartTimeout, spec.Timeout = 20*time.Second, 2*time.Second
		l.fails(spec, sandbox.RunTimeout, "")
	})
	t.Run("a pod that no node can have", func(t *testing.T) {
		l.t = t
		spec := l.spec("env")
		spec.Limits.MemoryMB, spec.StartTimeout = 1<<30, 5*time.Second
		l.fails(spec, sandbox.StartTimeout, "", "Unschedulable", "Insufficient memory")
	})
	t.Run("an image that nobody has", func(t *testing.T) {
		l.t = t
		spec := l.spec("env")
		// A registry on the node itself, where nobody listens.
		spec.Image, spec.StartTimeout = "127.0.0.1:1/none@sha256:"+strings.Repeat("a", 64), 8*time.Second
		l.fails(spec, sandbox.StartTimeout, sandbox.CodeImageMissing, "127.0.0.1:1/none")
	})
	t.Run("an image without an agent", func(t *testing.T) {
		l.t = t
		spec := l.spec("env")
		spec.Image = testkit.ClusterImage(t, "batlehub.test/noagent", testkit.AgentFiles(t, map[string]*testkit.ImageFile{"/usr/local/bin/batlehub-sandbox": nil}))
		l.fails(spec, sandbox.Refused, sandbox.CodeNoAgent)
	})
	t.Run("a runtime class that there is not", func(t *testing.T) {
		l.t = t
		l.Runtime = l.with(func(c *Config) { c.RuntimeClass = "nobody" })
		l.fails(l.spec("env"), sandbox.Refused, sandbox.CodeConfig, "runtime_class")
	})
	t.Run("a service account that there is not", func(t *testing.T) {
		l.t = t
		l.Runtime = l.with(func(c *Config) { c.ServiceAccount = "nobody" })
		l.fails(l.spec("env"), sandbox.Refused, sandbox.CodeConfig, "service_account")
	})
	t.Run("a namespace that is another's", func(t *testing.T) {
		l.t = t
		l.Runtime = l.with(func(c *Config) { c.Namespace = "default" })
		l.fails(l.spec("env"), sandbox.Refused, sandbox.CodeHostRefused, "create, get, list, watch and delete")
	})
}

// quota gives the namespace a quota of memory, which counts once its controller
// has seen it.
func (l *live) quota(memory string) {
	l.t.Helper()
	l.post("/api/v1/namespaces/"+l.namespace+"/resourcequotas",
		`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"sandbox"},"spec":{"hard":{"limits.memory":%q}}}`, memory)
	seen := testkit.Eventually(10*time.Second, func() bool {
		quota := &corev1.ResourceQuota{}
		err := l.client.Get().AbsPath("/api/v1/namespaces/" + l.namespace + "/resourcequotas/sandbox").Do(l.t.Context()).Into(quota)
		return err == nil && len(quota.Status.Hard) > 0
	})
	if !seen {
		l.t.Fatal("the quota is not seen")
	}
}

func TestLiveAQuotaThatIsTooSmallIsAnError(t *testing.T) {
	l := newLive(t, options{})
	l.quota("500Mi")
	l.fails(l.spec("env"), sandbox.Refused, sandbox.CodeConfig,
		"the ResourceQuota sandbox can never hold one such pod: its limits.memory is 500Mi, and the pod needs 600Mi",
		"raise in the ResourceQuota sandbox limits.memory to 600Mi or more")
}

func TestLiveAQuotaThatIsUsedUpIsAnError(t *testing.T) {
	l := newLive(t, options{})
	l.quota("700Mi")
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := l.whileRunning(ctx)
	other := l.spec("env")
	other.Label.Attempt++
	_, err := l.Run(t.Context(), other)
	if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeHostRefused {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{
		"the ResourceQuota sandbox is used up now: of its limits.memory 700Mi are 600Mi used, and the pod needs 600Mi",
		"raise in the ResourceQuota sandbox limits.memory to 1200Mi or more",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	cancel()
	if err := <-ended; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Error(err)
	}
}

// whileRunning starts a run that hangs, waits for its pod to run, and returns
// the pod's name and what the run comes to.
func (l *live) whileRunning(ctx context.Context) (pod string, ended <-chan error) {
	l.t.Helper()
	came := make(chan error, 1)
	go func() {
		_, err := l.Run(ctx, l.spec("sleep"))
		came <- err
	}()
	running := testkit.Eventually(30*time.Second, func() bool {
		for _, p := range l.podNames() {
			name, phase, _ := strings.Cut(p, " ")
			if pod = name; phase == "Running" {
				return true
			}
		}
		return false
	})
	if !running {
		l.t.Fatalf("no pod runs: %v", <-came)
	}
	return pod, came
}

func TestLiveARunThatIsCancelledLeavesNothing(t *testing.T) {
	l := newLive(t, options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := l.whileRunning(ctx)
	cancel()
	began := time.Now()
	if err := <-ended; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	t.Logf("it took %s", time.Since(began).Round(time.Millisecond))
	l.nothingLeft()
}

func TestLiveAPodThatSomebodyElseDeletesIsAnError(t *testing.T) {
	l := newLive(t, options{})
	pod, ended := l.whileRunning(t.Context())
	if err := l.client.Delete().AbsPath("/api/v1/namespaces/" + l.namespace + "/pods/" + pod).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; sandbox.KindOf(err) != sandbox.Crashed || !strings.Contains(err.Error(), "was deleted by somebody else") {
		t.Errorf("got %v", err)
	}
}

// What a worker leaves that is killed: its own is swept at its next start, and
// another's is not while it is young.
func TestLiveASweepRemovesWhatAWorkerLeft(t *testing.T) {
	l := newLive(t, options{})
	left := func(worker string) string {
		spec := l.spec("sleep")
		spec.Label.Worker = worker
		p := podManifest(l.config, spec, l.config.Image, urls{"http://192.0.2.1/in", "http://192.0.2.1/out"})
		made, err := l.pods.create(t.Context(), p, createOptions)
		if err != nil {
			t.Fatal(err)
		}
		return made.Name
	}
	own, foreign := left(l.worker), left("another")
	report, err := l.Sweep(t.Context(), sandbox.SweepPolicy{Worker: l.worker, OlderThan: time.Hour})
	if err != nil || len(report.Removed) != 1 || report.Removed[0].Name != own || report.Removed[0].Worker != l.worker {
		t.Errorf("%+v, %v", report, err)
	}
	if names := l.podNames(); len(names) != 1 || !strings.HasPrefix(names[0], foreign) {
		t.Errorf("left are %q, want %s", names, foreign)
	}
	if report, err = l.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "another"}); err != nil || len(report.Removed) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// The pods of a worker's pod go with it.
func TestLiveAPodBelongsToItsWorkersPod(t *testing.T) {
	l := newLive(t, options{})
	spec := l.spec("sleep")
	worker, err := l.pods.create(t.Context(), podManifest(l.config, spec, l.config.Image, urls{"http://192.0.2.1/in", "http://192.0.2.1/out"}), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	l.Runtime = l.with(func(c *Config) { c.Owner = Owner(worker.Name, string(worker.UID)) })
	made, err := l.pods.create(t.Context(), podManifest(l.config, spec, l.config.Image, urls{"http://192.0.2.1/in", "http://192.0.2.1/out"}), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.pods.remove(t.Context(), sight{pod: worker}, endTime); err != nil {
		t.Fatal(err)
	}
	if !testkit.Eventually(30*time.Second, func() bool { return len(l.podNames()) == 0 }) {
		t.Errorf("%s is left: %q", made.Name, l.podNames())
	}
}

func TestLiveTheDoctorTriesEveryRightAndChangesNothing(t *testing.T) {
	l := newLive(t, options{})
	for _, a := range Examine(t.Context(), l.config) {
		t.Logf("%s: %s %v", a.Name, a.Detail, a.Fault)
		if a.Fault != nil {
			t.Errorf("%s: %v", a.Name, a.Fault)
		}
	}
	l.nothingLeft()
	nobody := l.config
	nobody.Namespace = "default"
	faults := 0
	for _, a := range Examine(t.Context(), nobody) {
		if a.Fault != nil {
			faults++
		}
	}
	if faults != 2 {
		t.Errorf("%d faults in a namespace without rights, want those of rights and pods", faults)
	}
}
