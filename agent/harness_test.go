package agent_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// bed is a run directory as a local runtime makes it.
type bed struct {
	t    testing.TB
	work string
	m    *wire.Manifest
	opts agent.Options
}

// newBed prepares a run of the test scanner with the given verb.
func newBed(t testing.TB, verb ...string) *bed {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	openUp(t, work)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	limits := wire.DefaultLimits()
	limits.AddressSpaceMB = wire.AddressSpaceOff
	limits.Processes = 0 // the uid is shared with the tests
	return &bed{
		t: t, work: work,
		m: &wire.Manifest{
			Wire:    wire.Version,
			Label:   wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1},
			Entries: []wire.Entry{}, Canaries: []string{},
			Policy: wire.DefaultExtractPolicy(), Limits: limits, TimeoutMS: 60_000,
			Argv: append([]string{self, scannerMark}, verb...), SealKey: wire.NewSealKey(),
		},
		opts: agent.Options{WorkDir: work, Home: work, Path: "/usr/local/bin:/usr/bin:/bin"},
	}
}

func (b *bed) in() string  { return "file://" + b.work + "/manifest.json" }
func (b *bed) out() string { return "file://" + b.work + "/out.tar" }

// writeManifest puts the manifest where it is fetched from.
func (b *bed) writeManifest() {
	b.t.Helper()
	document, err := b.m.Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.work, "manifest.json"), document, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// input writes an input beside the manifest and returns its URL.
func (b *bed) input(name string, content []byte) string {
	b.t.Helper()
	dir := filepath.Join(b.work, "in")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return "file://" + dir + "/" + name
}

// run carries the run out and reads its result.
func (b *bed) run() (*wire.Result, string) {
	b.t.Helper()
	b.writeManifest()
	if code := agent.Run(b.t.Context(), b.in(), b.out(), b.opts); code != agent.ExitStored {
		b.t.Fatalf("the agent ended with %d (%s)", code, code)
	}
	return b.result()
}

// result reads the result that stands there.
func (b *bed) result() (*wire.Result, string) {
	b.t.Helper()
	path := filepath.Join(b.work, "out.tar")
	info, err := os.Lstat(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if !info.Mode().IsRegular() {
		b.t.Fatalf("out.tar is %s", info.Mode())
	}
	tar, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	r, stdout, err := wire.DecodeResult(tar, b.m.SealKey)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, string(stdout)
}

// exited runs and wants an exit with the status.
func (b *bed) exited(status int) (*wire.Result, string) {
	b.t.Helper()
	r, stdout := b.run()
	if r.Ending != wire.EndExited || *r.Status != status {
		b.t.Fatalf("ending %s, status %v, failure %+v, refusal %+v, stderr %q; want exit %d",
			r.Ending, r.Status, r.Failure, r.Refusal, r.StderrTail, status)
	}
	return r, stdout
}

// facts runs the facts verb.
func (b *bed) facts() facts {
	b.t.Helper()
	_, stdout := b.exited(0)
	var f facts
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		b.t.Fatal(err)
	}
	return f
}

// failedWith runs and wants a failure of the stage and code.
func (b *bed) failedWith(stage wire.Stage, code string) *wire.Failure {
	b.t.Helper()
	r, _ := b.run()
	if r.Ending != wire.EndFailed || r.Failure.Stage != stage || r.Failure.Code != code {
		b.t.Fatalf("ending %s, failure %+v; want %s %s", r.Ending, r.Failure, stage, code)
	}
	if strings.ContainsAny(r.Failure.Detail, "\n\r") || r.Failure.Detail == "" {
		b.t.Errorf("the detail is not one line: %q", r.Failure.Detail)
	}
	return r.Failure
}

// leftOver lists what stands in the work directory.
func (b *bed) leftOver() []string {
	b.t.Helper()
	entries, err := os.ReadDir(b.work)
	if err != nil {
		b.t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// openUp gives the directories back their rights before the test's end
// removes them.
func openUp(t testing.TB, root string) {
	t.Helper()
	t.Cleanup(func() {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}
