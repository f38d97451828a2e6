package heavy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/router"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// meter is a proxy before a server that counts what goes through it. It keeps
// the Host that requests are signed for.
type meter struct {
	url string
	mu  sync.Mutex
	all []*exchange
}

// exchange is one request that went through.
type exchange struct {
	method, key string
	presigned   bool
	sent, got   atomic.Int64 // bytes of the bodies
}

func (e *exchange) String() string {
	who := "worker"
	if e.presigned {
		who = "sandbox"
	}
	return fmt.Sprintf("%s %s %s (%d bytes up, %d down)", who, e.method, e.key, e.sent.Load(), e.got.Load())
}

func newMeter(t *testing.T, s *s3server.Server) *meter {
	t.Helper()
	target, err := url.Parse(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{
			method: r.Method, key: strings.TrimPrefix(r.URL.Path, "/"+s3server.Bucket+"/"),
			presigned: r.URL.Query().Has("X-Amz-Signature"),
		}
		m.mu.Lock()
		m.all = append(m.all, e)
		m.mu.Unlock()
		r.Body = counted{r.Body, &e.sent}
		proxy.ServeHTTP(countedWriter{w, &e.got}, r)
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// take returns what went through since it was asked last, of the sandbox and of
// the worker.
func (m *meter) take(t *testing.T) (sandbox, worker []*exchange) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.all {
		t.Log(e)
		if e.presigned {
			sandbox = append(sandbox, e)
		} else {
			worker = append(worker, e)
		}
	}
	m.all = nil
	return sandbox, worker
}

func methods(all []*exchange) string {
	var list []string
	for _, e := range all {
		list = append(list, e.method)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// generated is an artifact of so many bytes, none of which are kept anywhere.
type generated struct {
	key  string
	size int64
}

func (g generated) Key() string { return g.key }
func (g generated) Size() int64 { return g.size }
func (g generated) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(pattern{}, g.size)), nil
}

// pattern is bytes without end.
type pattern struct{}

var patternBlock = bytes.Repeat([]byte("0123456789abcdef"), 4096)

func (pattern) Read(p []byte) (int, error) { return copy(p, patternBlock), nil }

// hopRequest is a run that prints about 2 KiB and has the artifact as a file.
func hopRequest(a generated, scanner string) bundle.Request {
	spec := sandbox.RunSpec{
		Argv: []string{"inmate", "list", "/work/many"}, Timeout: 5 * time.Minute, StartTimeout: 5 * time.Minute,
		Limits: wire.DefaultLimits(), Network: true,
		Label: wire.Label{Worker: "heavy", Job: "hop", Scanner: scanner, Attempt: 1},
		Bundle: sandbox.Bundle{
			Policy: wire.DefaultExtractPolicy(),
			Entries: []wire.Entry{
				{Path: wire.MustRelPath("artifact.bin"), Kind: wire.File, URL: wire.ArtifactURL},
			},
		},
	}
	for n := range 28 {
		spec.Bundle.Entries = append(spec.Bundle.Entries, wire.Entry{
			Path: wire.MustRelPath(fmt.Sprintf("many/%02d", n)), Kind: wire.File, Inline: []byte("x"), Size: 1,
		})
	}
	return bundle.Request{Manifest: bundle.Manifest(spec, nil), Artifact: a, Start: spec.StartTimeout}
}

// runAgent runs the real agent over a bundle's URLs, in a room that shares the
// host's network. It is the least of a sandbox that the agent can run in.
func runAgent(t *testing.T, l *lab.Lab, m *bundle.Remote) {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("not run: bwrap is not installed")
	}
	work, err := os.MkdirTemp("", "sandbox-hop-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	c := exec.CommandContext(t.Context(), bwrap, "--unshare-pid", "--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-uts",
		"--die-with-parent", "--new-session", "--as-pid-1", "--uid", "65532", "--gid", "65532", "--cap-drop", "ALL",
		"--clearenv", "--setenv", "HOME", "/work", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin",
		"--ro-bind", filepath.Join(l.Rooms, lab.Scanner), "/", "--proc", "/proc", "--dev", "/dev", "--bind", work, "/work", "--chdir", "/work",
		"--", "batlehub-sandbox", "--in", m.In(), "--out", m.Out())
	if os.Geteuid() == 0 {
		if err := os.Chown(work, 65532, 65532); err != nil {
			t.Fatal(err)
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	said, err := c.CombinedOutput()
	if err != nil && strings.Contains(string(said), "bwrap:") {
		t.Skipf("not run: bwrap makes no sandbox here: %s", said)
	}
	if err != nil || len(said) != 0 {
		t.Fatalf("the agent: %v, said %q", err, said)
	}
}

// oneRun is a whole run: its bundle, its agent, its result.
func oneRun(t *testing.T, l *lab.Lab, h *bundle.Hop, r bundle.Request) {
	t.Helper()
	m, err := h.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	runAgent(t, l, m)
	result, stdout, err := m.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, fault := bundle.Output(result, stdout)
	if fault != nil {
		t.Fatal(fault)
	}
	if out.Status == nil || *out.Status != 0 || len(stdout) < 1<<10 || len(stdout) > 4<<10 {
		t.Fatalf("the scanner ended with %v and printed %d bytes: %s", result.Ending, len(stdout), out.StderrTail)
	}
	t.Logf("the scanner printed %d bytes", len(stdout))
}

func TestACachedArtifactCostsTwoGETsAndOneSmallPUT(t *testing.T) {
	const size = 500 << 20
	l, s := theLab(t), s3server.Start(t, s3server.MinIO, s3server.Options{})
	m := newMeter(t, s)
	leaf := s.Backend(t, func(c *s3.Config) { c.Endpoint = m.url })
	artifact := generated{"artifact:npm/large/1.0.0", size}
	table := router.NewTable()
	cache, err := router.New(router.Config{
		Backends: map[string]storage.Backend{"s3": leaf}, Default: "s3", References: table,
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := artifact.Open(t.Context())
	blob := strings.Repeat("0", 64)
	if err := s.Backend(t).Put(t.Context(), "blob/"+blob, body, size); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Record(t.Context(), artifact.key, router.Reference{Backend: "s3", SHA256: blob, Size: size}); err != nil {
		t.Fatal(err)
	}
	h := bundle.NewHop(bundle.HopConfig{Runtime: "heavy", Leaf: leaf, Cache: cache})
	oneRun(t, l, h, hopRequest(artifact, "one"))
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	inside, outside := m.take(t)
	if methods(inside) != "GET GET PUT" {
		t.Errorf("the sandbox made %s", methods(inside))
	}
	for _, e := range inside {
		if e.method == http.MethodPut && (e.sent.Load() > 64<<10 || e.key != "sandbox/heavy/hop/one/1/out.tar") ||
			e.method == http.MethodGet && strings.HasPrefix(e.key, "blob/") && e.got.Load() != size {
			t.Errorf("the sandbox made %v", e)
		}
	}
	for _, e := range outside {
		if strings.HasPrefix(e.key, "blob/") || e.sent.Load() > 64<<10 || e.got.Load() > 128<<10 {
			t.Errorf("the worker made %v", e)
		}
	}
	leftNothing(t, s.Backend(t), "blob/"+blob)
}

func TestThreeScannersOfAnUncachedArtifactCostOneUpload(t *testing.T) {
	const size = 16 << 20
	l, s := theLab(t), s3server.Start(t, s3server.MinIO, s3server.Options{})
	m := newMeter(t, s)
	h := bundle.NewHop(bundle.HopConfig{Runtime: "heavy", Leaf: s.Backend(t, func(c *s3.Config) { c.Endpoint = m.url })})
	t.Run("scanners", func(t *testing.T) {
		for _, scanner := range []string{"one", "two", "three"} {
			t.Run(scanner, func(t *testing.T) {
				t.Parallel()
				oneRun(t, l, h, hopRequest(generated{size: size}, scanner))
			})
		}
	})
	if err := h.CloseJob(t.Context(), "heavy", "hop"); err != nil {
		t.Error(err)
	}
	inside, outside := m.take(t)
	if methods(inside) != "GET GET GET GET GET GET PUT PUT PUT" {
		t.Errorf("the sandboxes made %s", methods(inside))
	}
	uploads := 0
	for _, e := range outside {
		if e.method == http.MethodPut && e.sent.Load() >= size {
			uploads++
		}
	}
	if uploads != 1 {
		t.Errorf("%d uploads of the artifact", uploads)
	}
	leftNothing(t, s.Backend(t))
}

// leftNothing checks that a bucket has these keys and no others.
func leftNothing(t *testing.T, b storage.Backend, but ...string) {
	t.Helper()
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(but, o.Key) {
			t.Errorf("%s is left", o.Key)
		}
	}
}
