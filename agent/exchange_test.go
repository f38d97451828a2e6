package agent_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch/stage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// through runs b with its bundle and result in a directory beside the work
// directory, and returns that directory.
func through(t *testing.T, b *bed) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(b.work), "bundle")
	if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	document, err := b.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), document, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := agent.Run(t.Context(), "file://"+dir+"/manifest.json", "file://"+dir+"/out.tar", b.opts); code != agent.ExitStored {
		t.Fatalf("the agent ended with %d (%s)", code, code)
	}
	return dir
}

func resultIn(t *testing.T, dir string, m *wire.Manifest) (*wire.Result, string) {
	t.Helper()
	tar, err := os.ReadFile(filepath.Join(dir, "out.tar"))
	if err != nil {
		t.Fatal(err)
	}
	r, stdout, err := wire.DecodeResult(tar, m.SealKey)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(stdout)
}

func TestABundleBesideTheWorkDirectoryIsReadInPlaceAndRemoved(t *testing.T) {
	b := newBed(t, "cat", "a")
	dir := filepath.Join(filepath.Dir(b.work), "bundle")
	if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in", "a"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: "file://" + dir + "/in/a", Size: 7}}
	b.opts = agent.WithSteps(b.opts, func(step string) {
		if step == "extract" {
			// Everything is open by now, and nothing was copied.
			if left := b.leftOver(); len(left) != 0 {
				t.Errorf("the work directory has %q in it", left)
			}
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				t.Error(err)
			}
		}
	})
	document, err := b.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), document, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := agent.Run(t.Context(), "file://"+dir+"/manifest.json", "file://"+dir+"/out.tar", b.opts); code != agent.ExitStored {
		t.Fatalf("%d (%s)", code, code)
	}
	r, stdout := resultIn(t, dir+"-moved", b.m)
	if r.Ending != wire.EndExited || stdout != "a -rw-r--r-- \"content\"\n" {
		t.Errorf("ending %s, failure %+v, stdout %q", r.Ending, r.Failure, stdout)
	}
	if left, err := os.ReadDir(dir + "-moved"); err != nil || len(left) != 1 || left[0].Name() != "out.tar" {
		t.Errorf("%v are left (%v)", left, err)
	}
}

func TestAProbesBundleBesideTheWorkDirectoryIsRemovedToo(t *testing.T) {
	b := newBed(t)
	b.m.Argv, b.m.Probe = []string{}, &wire.ProbeRequest{Commands: []string{}}
	dir := through(t, b)
	if r, _ := resultIn(t, dir, b.m); r.Ending != wire.EndProbed {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left (%v)", left, err)
	}
}

func TestTheBundlesDirectoryIsClosedToTheScannerAndTheResultArrives(t *testing.T) {
	if !stage.CanClose() {
		t.Skip("not run: this kernel's Landlock can't close a directory")
	}
	if _, err := os.Stat("/bin/ls"); err != nil {
		t.Skipf("not run: %v", err)
	}
	b := newBed(t)
	dir := filepath.Join(filepath.Dir(b.work), "bundle")
	b.m.Argv = []string{"/bin/ls", dir}
	through(t, b)
	if r, stdout := resultIn(t, dir, b.m); r.Ending != wire.EndExited || *r.Status == 0 || !strings.Contains(r.StderrTail, "ermission denied") {
		t.Errorf("ending %s, status %v, stdout %q, stderr %q", r.Ending, r.Status, stdout, r.StderrTail)
	}
	// The work directory, which is all that a local runtime has, is not.
	b = newBed(t)
	b.m.Argv = []string{"/bin/ls", "/", b.work}
	b.exited(0)
}

func TestInputsThatCanNotBeRemovedAreAFailure(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("not run: root removes everything")
	}
	b := newBed(t, "exit", "0")
	in := filepath.Join(filepath.Dir(b.work), "bundle", "in")
	if err := os.MkdirAll(in, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(in, 0o500); err != nil {
		t.Fatal(err)
	}
	openUp(t, in)
	dir := through(t, b)
	if r, _ := resultIn(t, dir, b.m); r.Ending != wire.EndFailed || r.Failure.Stage != wire.StageFetch {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

// slow is a server that sends a byte of the body whenever tick fires, for as
// long as somebody listens.
func slow(t *testing.T, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := range len(body) {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
			if _, err := io.WriteString(w, body[i:i+1]); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAFetchThatTakesTooLongIsATimeoutWhateverHoldsItUp(t *testing.T) {
	drip := slow(t, strings.Repeat("x", 1<<20))
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, url := range map[string]string{
		"a drip": drip.URL, "silence": silent.URL, "a broken storage": broken.URL, "a closed port": "http://" + closed.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "exit", "0")
			b.m.FetchMS = 300
			b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: url + "/k?X-Amz-Signature=topsecret", Size: 1 << 20}}
			began := time.Now()
			f := b.failedWith(wire.StageFetch, wire.CodeTimeout)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if strings.Contains(f.Detail, "topsecret") || !strings.Contains(f.Detail, "entries[0]") {
				t.Errorf("the detail is %q", f.Detail)
			}
		})
	}
}

func TestTheFetchIsCountedFromTheAgentsStart(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.m.FetchMS = 400
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }))
	t.Cleanup(s.Close)
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: s.URL, Size: 7}}
	document, err := b.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	// A manifest that takes longer than the whole fetch may.
	manifest := slow(t, string(document))
	if code := agent.Run(context.Background(), manifest.URL, b.out(), b.opts); code != agent.ExitStored {
		t.Fatalf("%d (%s)", code, code)
	}
	if r, _ := b.result(); r.Ending != wire.EndFailed || r.Failure.Code != wire.CodeTimeout {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

func TestAnExpiredURLIsSaidToBeOneWithoutItsQuery(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	b := newBed(t, "exit", "0")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: s.URL + "/k?X-Amz-Signature=topsecret", Size: 7}}
	f := b.failedWith(wire.StageFetch, wire.CodeIO)
	if !strings.Contains(f.Detail, "403") || !strings.Contains(f.Detail, "expired") || strings.Contains(f.Detail, "topsecret") || asked != 1 {
		t.Errorf("%d requests, %q", asked, f.Detail)
	}
}
