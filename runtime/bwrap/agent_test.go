package bwrap

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// coreutils is a runtime over the real bwrap and the real agent, in a room with
// a few dynamic programs of this host and their libraries.
func coreutils(t *testing.T, canaries ...netip.AddrPort) *Runtime {
	t.Helper()
	if _, err := FindBinary(DefaultBinary); err != nil {
		t.Skip("not run: bwrap is not installed")
	}
	agent := testkit.Agent(t)
	rooms := testkit.Dir(t)
	var from []room.Source
	programs := []string{"cat", "env", "ls", "sleep", "head"}
	for _, name := range programs {
		p, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("not run: there is no %s here", name)
		}
		from = append(from, room.Source{Path: p, To: "/usr/bin/" + name})
	}
	if _, err := room.Build(t.Context(), filepath.Join(rooms, "scanner"), room.Options{
		Agent: agent, From: from, Commands: programs, Libraries: true,
	}); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(testkit.Dir(t), "runs")
	r, err := New(Config{Rooms: rooms, RunDir: runs, Canaries: canaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, runs)
	})
	return r
}

// scan is a spec for dynamic programs, which map more than they use.
func scan(argv ...string) sandbox.RunSpec {
	spec := stubSpec()
	spec.Argv = argv
	spec.StartTimeout, spec.Timeout = 20*time.Second, 20*time.Second
	return spec
}

func TestTheProbePassesInARoomThatRoomBuildMade(t *testing.T) {
	r := coreutils(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{"cat", "/usr/bin/ls"}})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v\n%+v", report.Err(), err, report.Verdicts)
	}
	if report.UID != UID || report.Agent == "" {
		t.Errorf("uid %d, agent %q", report.UID, report.Agent)
	}
	for i, v := range report.Verdicts {
		if v.ID != wire.Assertions[i] || v.Outcome != wire.Pass && v.ID != wire.AssertMemory {
			t.Errorf("verdict %+v", v)
		}
	}
}

func TestTheProbeReportsTheDigestOfEachCommand(t *testing.T) {
	r := coreutils(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{"cat"}})
	if err != nil || len(report.Commands) != 1 {
		t.Fatalf("got %+v, %v", report.Commands, err)
	}
	b, err := os.ReadFile(filepath.Join(r.config.Rooms, "scanner/usr/bin/cat"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if got := report.Commands[0]; got.SHA256 != hex.EncodeToString(sum[:]) || got.Size != int64(len(b)) || got.Path != "/usr/bin/cat" {
		t.Errorf("got %+v", got)
	}
}

func TestAProbeOfAnotherScannersRoomNamesTheMissingCommand(t *testing.T) {
	r := coreutils(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{"trivy"}})
	v, failed := report.Failed()
	if err != nil || !failed || v.ID != wire.AssertCommand || !strings.Contains(v.Detail, "trivy") || report.Hint != Hint(wire.AssertCommand) {
		t.Errorf("got %+v, %q, %v", v, report.Hint, err)
	}
}

func TestAProbeOfARoomWithAShellFailsThere(t *testing.T) {
	r := coreutils(t)
	shell := filepath.Join(r.config.Rooms, "scanner/usr/bin/sh")
	if err := os.Link(filepath.Join(r.config.Rooms, "scanner/usr/bin/cat"), shell); err != nil {
		t.Fatal(err)
	}
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertRoom {
		t.Errorf("got %+v, %v", v, err)
	}
}

// An address of this host that a sandbox with a network could reach.
func listener(t *testing.T) netip.AddrPort {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().IsLoopback() || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(prefix.Addr(), 0).String())
		if err != nil {
			continue
		}
		t.Cleanup(func() { l.Close() })
		return netip.MustParseAddrPort(l.Addr().String())
	}
	t.Skip("not run: this host has no address that a sandbox could route to")
	return netip.AddrPort{}
}

func TestACanaryOfThisHostIsOutOfReach(t *testing.T) {
	r := coreutils(t, listener(t))
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if err != nil || report.Err() != nil {
		t.Errorf("got %v, %v", report.Err(), err)
	}
	if _, err := r.Run(t.Context(), scan("env")); err != nil {
		t.Errorf("a run behind its wall: %v", err)
	}
}

// A wrapper that lets the network in breaks one wall; the probe says which,
// and no run starts its scanner.
func TestAnOpenNetworkFailsTheProbeAndEveryRun(t *testing.T) {
	r := coreutils(t, listener(t))
	wrapper := filepath.Join(testkit.Dir(t), "bwrap-wrapper")
	real, err := FindBinary(DefaultBinary)
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then exec " + real + " --version; fi\nshift\nexec " + real + " --unshare-all --share-net \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(wrapper, 0o755); err != nil {
		t.Fatal(err)
	}
	r.config.Binary = wrapper
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertNetwork || report.Hint != Hint(wire.AssertNetwork) {
		t.Errorf("got %+v, %q, %v", v, report.Hint, err)
	}
	spec := scan("env")
	out, err := r.Run(t.Context(), spec)
	if sandbox.CodeOf(err) != sandbox.CodeNetworkOpen && sandbox.KindOf(err) != sandbox.RunTimeout || len(out.Stdout) > 0 {
		t.Errorf("got %q, %v, want network_open", out.Stdout, err)
	}
}

func packageOf(t *testing.T, files map[string]string) sandbox.Artifact {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bundle.BytesArtifact(b.Bytes())
}

func TestAPackageIsUnpackedInsideAndScanned(t *testing.T) {
	r := coreutils(t)
	p, err := wire.ParseRelPath("pkg")
	if err != nil {
		t.Fatal(err)
	}
	spec := scan("cat", "pkg/package/index.js")
	spec.Bundle.Entries = []wire.Entry{{Path: p, Kind: wire.Archive, URL: wire.ArtifactURL}}
	spec.Bundle.Artifact = packageOf(t, map[string]string{"package/index.js": "hello"})
	out, err := r.Run(t.Context(), spec)
	if err != nil || string(out.Stdout) != "hello" || out.Result.Extraction.Files != 1 || *out.Status != 0 {
		t.Errorf("got %q, %+v, %v", out.Stdout, out.Result, err)
	}
	spec.Bundle.Artifact = packageOf(t, map[string]string{"../../escaped": "x"})
	out, err = r.Run(t.Context(), spec)
	if err != nil || out.Refused() == nil || out.Status != nil {
		t.Errorf("got %+v, %v, want a refusal", out, err)
	}
}

func TestAScannersEnvironmentAndStatusCrossTheWall(t *testing.T) {
	r := coreutils(t)
	out, err := r.Run(t.Context(), scan("env"))
	lines := strings.Fields(string(out.Stdout))
	slices.Sort(lines)
	if err != nil || !slices.Equal(lines, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin"}) {
		t.Errorf("the environment is %q, %v", lines, err)
	}
	out, err = r.Run(t.Context(), scan("cat", "/no/such/file"))
	if err != nil || out.Status == nil || *out.Status != 1 || !strings.Contains(out.StderrTail, "/no/such/file") {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestAScannerThatHangsIsARunTimeoutFromTheAgent(t *testing.T) {
	r := coreutils(t)
	spec := scan("sleep", "600")
	spec.Timeout = time.Second
	if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.RunTimeout {
		t.Errorf("got %v, want a run timeout", err)
	}
}

func TestAMissingScannerIsACrashThatSaysSo(t *testing.T) {
	r := coreutils(t)
	if _, err := r.Run(t.Context(), scan("no-such-scanner")); sandbox.CodeOf(err) != sandbox.CodeCommandMissing {
		t.Errorf("got %v, want command_missing", err)
	}
}
