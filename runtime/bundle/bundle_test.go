package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// TestMain lets the test binary be the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[0] == "worker" {
		worker(os.Args[1])
	}
	os.Exit(m.Run())
}

func path(t *testing.T, s string) wire.RelPath {
	t.Helper()
	p, err := wire.ParseRelPath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func specOf(entries ...wire.Entry) sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle:       sandbox.Bundle{Entries: entries, Policy: wire.DefaultExtractPolicy()},
		Argv:         []string{"scanner", "--json"},
		StartTimeout: time.Minute,
		Timeout:      time.Minute,
		Limits:       wire.DefaultLimits(),
		Label:        wire.Label{Worker: "worker-1", Job: "job-2", Scanner: "scanner", Attempt: 3},
	}
}

func withArtifact(t *testing.T, a sandbox.Artifact) sandbox.RunSpec {
	spec := specOf(wire.Entry{Path: path(t, "pkg"), Kind: wire.Archive, URL: wire.ArtifactURL})
	spec.Bundle.Artifact = a
	return spec
}

func request(spec sandbox.RunSpec, inside string) bundle.Request {
	return bundle.Request{
		Manifest: bundle.Manifest(spec, nil), Artifact: spec.Bundle.Artifact, Inside: inside,
		Deadline: time.Now().Add(time.Minute),
	}
}

func newStore(t *testing.T) *bundle.Store {
	t.Helper()
	s := bundle.NewStore(bundle.Config{Runtime: "test", Parent: t.TempDir()})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func create(t *testing.T, s *bundle.Store, r bundle.Request) *bundle.Dir {
	t.Helper()
	d, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func empty(t *testing.T, s *bundle.Store) {
	t.Helper()
	entries, err := os.ReadDir(s.Parent())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left", e.Name())
	}
}

func TestARunDirectoryHoldsTheManifestAndTheArtifactAndNothingElse(t *testing.T) {
	content := bytes.Repeat([]byte("artifact "), 100_000)
	s := newStore(t)
	d := create(t, s, request(withArtifact(t, bundle.BytesArtifact(content)), "/work"))
	if name := filepath.Base(d.Path()); !strings.HasPrefix(name, "batlehub-sbx~worker-1~job-2~scanner~3~") {
		t.Errorf("the directory is called %s", name)
	}
	for _, dir := range []string{d.Path(), d.Work(), filepath.Join(d.Work(), "in")} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want mode 0700", dir, info, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(d.Work(), "in/artifact")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the artifact is %d bytes, %v", len(got), err)
	}
	var names []string
	_ = filepath.WalkDir(d.Work(), func(p string, _ fs.DirEntry, _ error) error {
		names = append(names, strings.TrimPrefix(p, d.Work()))
		return nil
	})
	if got := strings.Join(names, " "); got != " /in /in/artifact /manifest.json" {
		t.Errorf("the work directory holds %q", got)
	}
}

func TestABareDirectoryHoldsNothingAndIsItsRunsAlone(t *testing.T) {
	s := newStore(t)
	label := specOf().Label
	d, err := s.Bare(label, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(filepath.Base(d.Path()), "worker-1~job-2~scanner~3~") {
		t.Errorf("it is called %s", d.Path())
	}
	if left, err := os.ReadDir(d.Work()); err != nil || len(left) > 0 {
		t.Errorf("it holds %v, %v", left, err)
	}
	all := sandbox.SweepPolicy{Worker: label.Worker, OlderThan: time.Minute}
	if report, err := s.Sweep(t.Context(), all); err != nil || len(report.Removed) > 0 {
		t.Errorf("a sweep took it from its run: %+v, %v", report, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

func TestTheManifestSaysWhatTheSpecSays(t *testing.T) {
	spec := withArtifact(t, bundle.BytesArtifact([]byte("four")))
	spec.Bundle.Entries = append(spec.Bundle.Entries, wire.Entry{Path: path(t, "lock.json"), Kind: wire.File, Inline: []byte("{}"), Size: 2})
	canaries := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80")}
	s := newStore(t)
	r := request(spec, "/work")
	r.Manifest = bundle.Manifest(spec, canaries)
	d := create(t, s, r)
	if d.In() != "file:///work/manifest.json" || d.Out() != "file:///work/out.tar" {
		t.Errorf("the URLs are %s and %s", d.In(), d.Out())
	}
	b, err := os.ReadFile(filepath.Join(d.Work(), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.Entries[0].URL != "file:///work/in/artifact" || m.Entries[0].Size != 4 {
		t.Errorf("the artifact is %+v", m.Entries[0])
	}
	if string(m.Entries[1].Inline) != "{}" || m.Entries[1].URL != "" {
		t.Errorf("the inline entry is %+v", m.Entries[1])
	}
	if m.Label != spec.Label || m.Limits != spec.Limits || m.Policy != spec.Bundle.Policy || m.TimeoutMS != 60_000 {
		t.Errorf("the manifest is %+v", m)
	}
	if len(m.Canaries) != 1 || m.Canaries[0] != "192.0.2.1:80" {
		t.Errorf("the canaries are %v", m.Canaries)
	}
	if m.SealKey == (wire.SealKey{}) || m.SealKey != r.Manifest.SealKey {
		t.Error("the seal key is not the run's")
	}
	if spec.Bundle.Entries[0].URL != wire.ArtifactURL {
		t.Error("the caller's spec was changed")
	}
}

func TestARunWithNetworkGetsNoCanaries(t *testing.T) {
	spec := specOf()
	spec.Network = true
	if m := bundle.Manifest(spec, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80")}); len(m.Canaries) != 0 {
		t.Errorf("the canaries are %v", m.Canaries)
	}
}

func TestEachRunHasItsOwnKeyAndDirectory(t *testing.T) {
	s := newStore(t)
	a, b := request(specOf(), "/work"), request(specOf(), "/work")
	if a.Manifest.SealKey == b.Manifest.SealKey {
		t.Error("two runs have one key")
	}
	if create(t, s, a).Path() == create(t, s, b).Path() {
		t.Error("two runs have one directory")
	}
}

func TestWithoutAWallTheURLsAreTheHosts(t *testing.T) {
	s := newStore(t)
	d := create(t, s, request(withArtifact(t, bundle.BytesArtifact([]byte("x"))), ""))
	if d.In() != "file://"+d.Work()+"/manifest.json" || d.Out() != "file://"+d.Work()+"/out.tar" {
		t.Errorf("the URLs are %s and %s", d.In(), d.Out())
	}
	b, err := os.ReadFile(filepath.Join(d.Work(), "manifest.json"))
	if err != nil || !bytes.Contains(b, []byte("file://"+d.Work()+"/in/artifact")) {
		t.Errorf("the manifest is %s, %v", b, err)
	}
}

func TestTwoEntriesOfTheArtifactHaveACopyEach(t *testing.T) {
	spec := specOf(
		wire.Entry{Path: path(t, "tree"), Kind: wire.Archive, URL: wire.ArtifactURL},
		wire.Entry{Path: path(t, "file"), Kind: wire.File, URL: wire.ArtifactURL},
	)
	spec.Bundle.Artifact = bundle.BytesArtifact([]byte("both"))
	d := create(t, newStore(t), request(spec, "/work"))
	for _, name := range []string{"in/artifact", "in/artifact-2"} {
		if b, err := os.ReadFile(filepath.Join(d.Work(), name)); err != nil || string(b) != "both" {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
}

// lying is an artifact that says one size and holds another.
type lying struct {
	sandbox.Artifact
	size int64
}

func (l lying) Size() int64 { return l.size }

// failing is an artifact that can't be read to its end.
type failing struct{ sandbox.Artifact }

func (failing) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("some"), errReader{})), nil
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

// endless is an artifact without end.
type endless struct{ sandbox.Artifact }

func (endless) Open(context.Context) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestABundleThatCanNotBeMadeIsAnErrorAndLeavesNothing(t *testing.T) {
	whole := bundle.BytesArtifact([]byte("twelve bytes"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	bad := func(change func(*sandbox.RunSpec)) sandbox.RunSpec {
		spec := withArtifact(t, whole)
		change(&spec)
		return spec
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		spec sandbox.RunSpec
		kind sandbox.Kind
		code sandbox.Code
		says string
	}{
		{"a shorter artifact", t.Context(), withArtifact(t, lying{whole, 13}), sandbox.Crashed, sandbox.CodeFetch, "has 12 bytes, 13 were announced"},
		{"a longer artifact", t.Context(), withArtifact(t, lying{whole, 11}), sandbox.Crashed, sandbox.CodeFetch, "more than the 11 bytes"},
		{"an endless artifact", t.Context(), withArtifact(t, endless{whole}), sandbox.Crashed, sandbox.CodeFetch, "more than the 12 bytes"},
		{"an unreadable artifact", t.Context(), withArtifact(t, failing{whole}), sandbox.Crashed, sandbox.CodeInternal, "the disk is gone"},
		{"an ended context", cancelled, withArtifact(t, whole), sandbox.Cancelled, "", "canceled"},
		{"no artifact", t.Context(), bad(func(s *sandbox.RunSpec) { s.Bundle.Artifact = nil }), sandbox.Refused, sandbox.CodeConfig, "has no artifact"},
		{"a URL of the host", t.Context(), bad(func(s *sandbox.RunSpec) { s.Bundle.Entries[0].URL = "file:///etc/passwd" }), sandbox.Refused, sandbox.CodeConfig, "file:///etc/passwd"},
		{"a reserved path", t.Context(), bad(func(s *sandbox.RunSpec) { s.Bundle.Entries[0].Path = path(t, "out.tar") }), sandbox.Refused, sandbox.CodeConfig, "reserved"},
		{"no command", t.Context(), bad(func(s *sandbox.RunSpec) { s.Argv = nil }), sandbox.Refused, sandbox.CodeConfig, "argv is empty"},
		{"a label that climbs", t.Context(), bad(func(s *sandbox.RunSpec) { s.Label.Scanner = "../up" }), sandbox.Refused, sandbox.CodeConfig, "scanner"},
		{"no timeout", t.Context(), bad(func(s *sandbox.RunSpec) { s.Timeout = 0 }), sandbox.Refused, sandbox.CodeConfig, "timeout_ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			_, err := s.Create(c.ctx, request(c.spec, "/work"))
			e, ok := errors.AsType[*sandbox.Error](err)
			if !ok || e.Kind != c.kind || e.Code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s (%s) that says %q", err, c.kind, c.code, c.says)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is not one line: %q", err)
			}
			empty(t, s)
		})
	}
}

func TestAParentThatCantBeIsAConfigurationErrorAndNothingIsMade(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{file, filepath.Join(file, "runs"), filepath.Join(dir, "missing", "runs")} {
		s := bundle.NewStore(bundle.Config{Runtime: "test", Parent: parent})
		_, err := s.Create(t.Context(), request(specOf(), "/work"))
		if sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), parent) || strings.Contains(err.Error(), "removing") {
			t.Errorf("got %v, want a configuration error that names %s alone", err, parent)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("made %v, %v", entries, err)
	}
}

func TestAFullDiskIsOurs(t *testing.T) {
	parent := t.TempDir()
	if err := unix.Mount("tmpfs", parent, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k"); err != nil {
		t.Skipf("not run: a small file system can't be mounted here: %v", err)
	}
	defer unix.Unmount(parent, unix.MNT_DETACH)
	s := bundle.NewStore(bundle.Config{Runtime: "test", Parent: parent})
	defer s.Close()
	_, err := s.Create(t.Context(), request(withArtifact(t, bundle.BytesArtifact(make([]byte, 1<<20))), "/work"))
	if sandbox.CodeOf(err) != sandbox.CodeNoSpace || sandbox.KindOf(err) != sandbox.Crashed {
		t.Errorf("got %v, want no_space", err)
	}
	empty(t, s)
}

func TestAFileArtifactIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.FileArtifact(file)
	if err != nil || a.Size() != 7 || a.Key() != "" {
		t.Fatalf("got %v, %v", a, err)
	}
	for range 2 {
		r, err := a.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != "content" {
			t.Errorf("got %q, %v", b, err)
		}
		r.Close()
	}
	for _, p := range []string{fifo, dir, "/dev/zero", filepath.Join(dir, "nothing")} {
		if _, err := bundle.FileArtifact(p); err == nil {
			t.Errorf("%s was taken", p)
		}
	}
}

func TestAFetchedBundleIsOneWithoutAManifest(t *testing.T) {
	d := create(t, newStore(t), request(specOf(), "/work"))
	if d.Fetched() {
		t.Error("nothing has been fetched yet")
	}
	if err := os.Remove(filepath.Join(d.Work(), "manifest.json")); err != nil {
		t.Fatal(err)
	}
	if !d.Fetched() {
		t.Error("the bundle was fetched")
	}
}

func TestARunDirectoryIsGoneHoweverItWasLeft(t *testing.T) {
	s := newStore(t)
	d := create(t, s, request(specOf(), "/work"))
	deep := filepath.Join(d.Work(), strings.Repeat("d/", 300))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink("/", filepath.Join(d.Work(), "root")), unix.Mkfifo(filepath.Join(d.Work(), "out.tar"), 0),
		os.Chmod(filepath.Join(d.Work(), "d/d"), 0), os.Chmod(filepath.Join(d.Work(), "d"), 0), os.Chmod(d.Work(), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if s.Open() != 0 {
		t.Errorf("%d directories are in use", s.Open())
	}
	empty(t, s)
}

// worker makes and removes run directories until it is killed.
func worker(parent string) {
	s := bundle.NewStore(bundle.Config{Runtime: "test", Parent: parent})
	spec := specOf(wire.Entry{Kind: wire.Archive, URL: wire.ArtifactURL})
	spec.Bundle.Artifact = bundle.BytesArtifact(make([]byte, 64<<10))
	for first := true; ; first = false {
		d, err := s.Create(context.Background(), request(spec, "/work"))
		if err != nil {
			os.Exit(1)
		}
		if first {
			os.Stdout.WriteString("ready\n")
		}
		if d.Close() != nil {
			os.Exit(1)
		}
	}
}

func TestAWorkerThatIsKilledAtAnyMomentLeavesNoDirectory(t *testing.T) {
	parent := t.TempDir()
	for i := range 12 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"worker", parent}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		// Each worker is killed somewhere else in its loop.
		<-time.After(time.Duration(i) * 137 * time.Microsecond)
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}
	if !eventually(func() bool {
		entries, err := os.ReadDir(parent)
		return err == nil && len(entries) == 0
	}) {
		t.Error("a directory is left a second later")
	}
}

func eventually(is func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		if is() {
			return true
		}
	}
	return is()
}
