package agent_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

var steps = []string{
	"get the manifest", "get the inputs", "extract", "wait for the wall", "launch", "collect", "store the result",
}

func TestTheStepsComeInTheirOrder(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: b.input("a", []byte("x")), Size: 1}}
	var seen []string
	manifest := map[string]bool{}
	b.opts = agent.WithSteps(b.opts, func(step string) {
		seen = append(seen, step)
		manifest[step] = slices.Contains(b.leftOver(), "manifest.json")
	})
	b.exited(0)
	if !slices.Equal(seen, steps) {
		t.Errorf("%q, want %q", seen, steps)
	}
	if !manifest["get the inputs"] || manifest["extract"] || manifest["launch"] {
		t.Errorf("the manifest was there at %v", manifest)
	}
}

func TestAFaultAtAnyStepLeavesNoResultAndNoProcess(t *testing.T) {
	for _, broken := range steps {
		b := newBed(t, "hang")
		if broken == "store the result" {
			b.m.Argv = newBed(t, "exit", "0").m.Argv
		}
		b.opts = agent.WithSteps(b.opts, func(step string) {
			if step == broken {
				panic("injected")
			}
		})
		b.writeManifest()
		if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitInternal {
			t.Errorf("%s: %d", broken, code)
		}
		for _, name := range b.leftOver() {
			if strings.Contains(name, "out.tar") {
				t.Errorf("%s: %s stands there", broken, name)
			}
		}
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			t.Errorf("%s: a child is left (%v)", broken, err)
		}
	}
}

// packed is a tar.gz of one file per name, executable and set-uid.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o4755}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnArchiveIsUnpackedWithoutExecuteBits(t *testing.T) {
	archive := packed(t, map[string]string{"package/run.sh": "#!/bin/sh\n"})
	for name, entry := range map[string]func(b *bed) wire.Entry{
		"inline": func(*bed) wire.Entry { return wire.Entry{Inline: archive} },
		"file":   func(b *bed) wire.Entry { return wire.Entry{URL: b.input("a", archive)} },
		"http": func(*bed) wire.Entry {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
			t.Cleanup(s.Close)
			return wire.Entry{URL: s.URL + "/a"}
		},
	} {
		b := newBed(t, "cat", "src/package/run.sh")
		e := entry(b)
		e.Path, e.Kind, e.Size = wire.MustRelPath("src"), wire.Archive, int64(len(archive))
		b.m.Entries = []wire.Entry{e}
		r, stdout := b.exited(0)
		if !strings.HasPrefix(stdout, "src/package/run.sh -rw-") || strings.Contains(stdout[:30], "x") {
			t.Errorf("%s: %q", name, stdout)
		}
		if r.Extraction.Archives != 1 || r.Extraction.Files != 1 {
			t.Errorf("%s: %+v", name, r.Extraction)
		}
		if left := b.leftOver(); slices.Contains(left, "in") || slices.Contains(left, "manifest.json") {
			t.Errorf("%s: %q", name, left)
		}
	}
}

func TestARefusedArchiveIsAnAnswer(t *testing.T) {
	b := newBed(t, "exit", "0")
	archive := packed(t, map[string]string{"big": strings.Repeat("x", 5000)})
	b.m.Policy.MaxFileBytes = 100
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("src"), Kind: wire.Archive, URL: b.input("a", archive), Size: int64(len(archive))}}
	r, _ := b.run()
	if r.Ending != wire.EndRefused || r.Refusal.Input != "src" || r.Refusal.Entry != "big" || r.Refusal.Rule == "" {
		t.Errorf("ending %s, refusal %+v", r.Ending, r.Refusal)
	}
}

func TestAnInputOfTheRunTakesItsNameBackFromAnArchive(t *testing.T) {
	archive := packed(t, map[string]string{"lock/inner": "x", "other": "y"})
	b := newBed(t, "cat", "lock")
	b.m.Entries = []wire.Entry{
		{Path: wire.RelPath{}, Kind: wire.Archive, Inline: archive, Size: int64(len(archive))},
		{Path: wire.MustRelPath("lock"), Kind: wire.File, Inline: []byte("ours"), Size: 4},
	}
	r, stdout := b.exited(0)
	if stdout != "lock -rw-r--r-- \"ours\"\n" {
		t.Errorf("%q", stdout)
	}
	if r.Extraction.Replaced != 1 || r.Extraction.Notes[len(r.Extraction.Notes)-1].Entry != "lock" {
		t.Errorf("%+v", r.Extraction)
	}
	b = newBed(t, "exit", "0")
	b.m.Entries = []wire.Entry{
		{Path: wire.RelPath{}, Kind: wire.Archive, Inline: archive, Size: int64(len(archive))},
		{Path: wire.MustRelPath("other/below"), Kind: wire.File, Inline: []byte("ours"), Size: 4},
	}
	if r, _ := b.run(); r.Ending != wire.EndRefused || r.Refusal.Input != "other/below" {
		t.Errorf("ending %s, refusal %+v", r.Ending, r.Refusal)
	}
}

func TestTheTimeOfExtractionAndScannerIsOne(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.m.TimeoutMS = 1
	archive := packed(t, map[string]string{"big": strings.Repeat("x", 32<<20)})
	b.m.Policy.MaxRatio = 1 << 20
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("src"), Kind: wire.Archive, URL: b.input("a", archive), Size: int64(len(archive))}}
	if r, _ := b.run(); r.Ending != wire.EndTimedOut {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

// onTmpfs puts the work directory on a file system of the size.
func onTmpfs(t *testing.T, b *bed, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can mount a small file system")
	}
	if err := unix.Mount("tmpfs", b.work, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Skipf("not run: no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(b.work, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestAnExtractionWithoutSpaceIsAFailureOfOurs(t *testing.T) {
	b := newBed(t, "exit", "0")
	onTmpfs(t, b, "1m")
	archive := packed(t, map[string]string{"big": strings.Repeat("x", 4<<20)})
	b.m.Policy.MaxRatio = 1 << 20
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("src"), Kind: wire.Archive, URL: b.input("a", archive), Size: int64(len(archive))}}
	b.failedWith(wire.StageExtract, wire.CodeNoSpace)
}

func TestAScannerThatFillsTheDiskStillHasAResult(t *testing.T) {
	b := newBed(t, "fill")
	onTmpfs(t, b, "1m")
	b.exited(3)
}

// storage is an object store: it hands out objects and takes what is put.
type storage struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	methods []string
}

func newStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{objects: map[string][]byte{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.methods = append(s.methods, r.Method)
		switch body, ok := s.objects[r.URL.Path]; {
		case r.Method == http.MethodPut:
			s.objects[r.URL.Path], _ = io.ReadAll(r.Body)
		case ok:
			_, _ = w.Write(body)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// overStorage sets a run up whose bundle and result are objects.
func overStorage(t *testing.T, b *bed, s *storage) agent.ExitCode {
	t.Helper()
	document, err := b.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.objects["/manifest"] = document
	b.opts.Roots = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return agent.Run(t.Context(), s.URL+"/manifest?sig=1", s.URL+"/any?sig=2", b.opts)
}

func TestOverStorageARunIsTwoGetsAndOnePut(t *testing.T) {
	b, s := newBed(t, "cat", "a"), newStorage(t)
	s.objects["/artifact"] = []byte("content")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: s.URL + "/artifact?sig=3", Size: 7}}
	b.m.Results = []wire.ResultURL{{Size: 10 << 10, URL: s.URL + "/small"}, {Size: 64 << 10, URL: s.URL + "/large"}}
	if code := overStorage(t, b, s); code != agent.ExitStored {
		t.Fatalf("%d", code)
	}
	if want := []string{"GET", "GET", "PUT"}; !slices.Equal(s.methods, want) {
		t.Errorf("%q", s.methods)
	}
	if len(s.objects["/small"]) != 10<<10 {
		t.Errorf("the result has %d bytes", len(s.objects["/small"]))
	}
	r, stdout, err := wire.DecodeResult(s.objects["/small"], b.m.SealKey)
	if err != nil || r.Ending != wire.EndExited || string(stdout) != "a -rw-r--r-- \"content\"\n" {
		t.Errorf("%+v %q (%v)", r, stdout, err)
	}
}

func TestTheShortestSignedResultThatHoldsItIsTaken(t *testing.T) {
	for size, want := range map[string]string{"100": "/small", "20000": "/large", "200000": ""} {
		b, s := newBed(t, "flood", "stdout", size), newStorage(t)
		b.m.Results = []wire.ResultURL{{Size: 10 << 10, URL: s.URL + "/small"}, {Size: 64 << 10, URL: s.URL + "/large"}}
		if code := overStorage(t, b, s); code != agent.ExitStored {
			t.Fatalf("%s: %d", size, code)
		}
		place := want
		if place == "" {
			place = "/small"
		}
		r, stdout, err := wire.DecodeResult(s.objects[place], b.m.SealKey)
		switch {
		case err != nil:
			t.Errorf("%s: %v", size, err)
		case want == "" && (r.Ending != wire.EndStdoutCap || len(stdout) != 0):
			t.Errorf("%s: ending %s, %d bytes", size, r.Ending, len(stdout))
		case want != "" && r.Ending != wire.EndExited:
			t.Errorf("%s: ending %s", size, r.Ending)
		}
	}
}

func TestAStorageThatTakesNoResultIsAnExitCode(t *testing.T) {
	b, s := newBed(t, "exit", "0"), newStorage(t)
	b.m.Results = []wire.ResultURL{{Size: 10 << 10, URL: "https://" + s.Listener.Addr().String() + "/small"}}
	document, err := b.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write(document)
	}))
	defer refuses.Close()
	b.m.Results[0].URL = refuses.URL + "/x"
	if document, err = b.m.Encode(); err != nil {
		t.Fatal(err)
	}
	if code := agent.Run(t.Context(), refuses.URL, refuses.URL+"/out", b.opts); code != agent.ExitStore {
		t.Errorf("%d, want %d", code, agent.ExitStore)
	}
}

// routable is an address of this machine that a canary may have.
func routable(t *testing.T) net.IP {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP
		}
	}
	t.Skip("not run: this machine has no routable address")
	return nil
}

func TestWithAnOpenNetworkTheScannerIsNotStarted(t *testing.T) {
	l, err := net.Listen("tcp", net.JoinHostPort(routable(t).String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBed(t, "grow", "1")
	b.m.Canaries = []string{l.Addr().String()}
	b.opts.GateBound = 400 * time.Millisecond
	f := b.failedWith(wire.StageGate, wire.CodeNetworkOpen)
	if !strings.Contains(f.Detail, l.Addr().String()) {
		t.Errorf("the detail does not name the canary: %q", f.Detail)
	}
	if slices.Contains(b.leftOver(), "grown") {
		t.Error("the scanner was started")
	}
	// A run with network that is kept from something has canaries as well.
	b = newBed(t, "grow", "1")
	b.m.Canaries, b.m.Network = []string{l.Addr().String()}, true
	b.opts.GateBound = 400 * time.Millisecond
	b.failedWith(wire.StageGate, wire.CodeNetworkOpen)
	b = newBed(t, "exit", "0")
	b.m.Canaries, b.m.Network = []string{}, true
	b.exited(0)
}

// A cluster's policy may be late. A probe gives it time, too, and says what it
// finds then; that of another runtime asks once.
func TestAProbeGivesAClustersPolicyTime(t *testing.T) {
	for _, cluster := range []bool{true, false} {
		l, err := net.Listen("tcp", net.JoinHostPort(routable(t).String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var came atomic.Int64
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
				came.Add(1)
			}
		}()
		b := newBed(t)
		b.m.Argv, b.m.Probe = []string{}, &wire.ProbeRequest{Commands: []string{}, KubernetesEnv: cluster}
		b.m.Canaries = []string{l.Addr().String()}
		b.opts.GateBound = 400 * time.Millisecond
		r, _ := b.run()
		if r.Ending != wire.EndProbed {
			t.Fatalf("ending %s, failure %+v", r.Ending, r.Failure)
		}
		if asked := came.Load(); (asked > 1) != cluster {
			t.Errorf("on a cluster: %t, and the canary was asked %d times", cluster, asked)
		}
		for _, v := range r.Probe.Verdicts {
			if v.ID == wire.AssertNetwork && (v.Outcome != wire.Fail || !strings.Contains(v.Detail, l.Addr().String())) {
				t.Errorf("%s: %s: %s", v.ID, v.Outcome, v.Detail)
			}
		}
	}
}

func TestAProbeIsAnsweredInTheScannersPlace(t *testing.T) {
	b := newBed(t)
	b.m.Argv, b.m.Probe = []string{}, &wire.ProbeRequest{Commands: []string{}}
	b.opts.Environ = []string{"PLANTED_SECRET=1"}
	r, _ := b.run()
	if r.Ending != wire.EndProbed {
		t.Fatalf("ending %s, failure %+v", r.Ending, r.Failure)
	}
	for _, v := range r.Probe.Verdicts {
		if v.ID == wire.AssertEnvironment && (v.Outcome != wire.Fail || !strings.Contains(v.Detail, "PLANTED_SECRET")) {
			t.Errorf("%s: %s: %s", v.ID, v.Outcome, v.Detail)
		}
	}
	if _, err := os.Stat(filepath.Join(b.work, "manifest.json")); err == nil {
		t.Error("the manifest is left")
	}
}

func TestAHugeDeclaredSizeCostsNoMemory(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }))
	defer s.Close()
	b := newBed(t, "exit", "0")
	for _, url := range []string{s.URL, b.input("a", []byte("x"))} {
		b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.Archive, URL: url, Size: 1<<63 - 1}}
		if strings.HasPrefix(url, "file:") {
			b.input("a", []byte("x"))
		}
		b.failedWith(wire.StageFetch, wire.CodeSizeMismatch)
	}
}

func TestACancelledFetchIsACancelledRun(t *testing.T) {
	arrived, done := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-done }))
	defer s.Close()
	defer close(done)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	b := newBed(t, "exit", "0")
	if code := agent.Run(ctx, s.URL, b.out(), b.opts); code != agent.ExitCancelled {
		t.Errorf("%d", code)
	}
}
