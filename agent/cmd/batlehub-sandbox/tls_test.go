package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// privateStorage is an https server with a certificate that no public
// authority has signed. It has a manifest and takes a result.
type privateStorage struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	result   []byte
}

func newPrivateStorage(t *testing.T, manifest []byte) *privateStorage {
	t.Helper()
	s := &privateStorage{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		if r.Method == http.MethodPut {
			s.result, _ = io.ReadAll(r.Body)
			return
		}
		_, _ = w.Write(manifest)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *privateStorage) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// emptyRoot is a root directory with the agent and nothing else.
func emptyRoot(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can change the root directory")
	}
	root := t.TempDir()
	program, err := os.ReadFile(theAgent(t))
	if err != nil {
		t.Fatal(err)
	}
	place(t, root, "agent", program, 0o755)
	if err := os.Mkdir(filepath.Join(root, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func place(t *testing.T, root, name string, content []byte, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFromAnEmptyRootOnlyCompiledInRootsAreTrustedWhateverTheEnvironmentSays(t *testing.T) {
	root := emptyRoot(t)
	m := manifest("look")
	document, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := newPrivateStorage(t, document)
	var proxied atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	t.Cleanup(proxy.Close)
	// The authority is there for whoever believes the environment.
	place(t, root, "private/authority.pem", s.authority(), 0o644)
	run := func() int {
		c := exec.CommandContext(t.Context(), "/agent", "--in", s.URL+"/manifest?sig=1", "--out", s.URL+"/out?sig=2")
		c.Path, c.Dir = "/agent", "/"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		c.Env = []string{
			"SSL_CERT_FILE=/private/authority.pem", "SSL_CERT_DIR=/private", "GODEBUG=x509usefallbackroots=0",
			"HTTPS_PROXY=" + proxy.URL, "https_proxy=" + proxy.URL, "HTTP_PROXY=" + proxy.URL, "ALL_PROXY=" + proxy.URL,
		}
		said, err := c.CombinedOutput()
		if len(said) != 0 {
			t.Errorf("it said %q", said)
		}
		return exitCode(t, err)
	}
	if code := run(); code != int(agent.ExitManifest) || s.requests != 0 {
		t.Errorf("status %d after %d requests", code, s.requests)
	}
	// A room may bring the authority of a private storage.
	place(t, root, "etc/ssl/certs/ca-certificates.crt", s.authority(), 0o644)
	if code := run(); code != int(agent.ExitStored) || s.requests != 2 {
		t.Errorf("with the authority in the room: status %d after %d requests", code, s.requests)
	}
	if r, _, err := wire.DecodeResult(bytes.Clone(s.result), m.SealKey); err != nil || r.Failure == nil || r.Failure.Code != wire.CodeNotFound {
		t.Errorf("%+v (%v)", r, err)
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}
