package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestNeitherManifestNorInputsAreThereForTheScanner(t *testing.T) {
	b := newBed(t, "facts")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: b.input("a", []byte("x")), Size: 1}}
	f := b.facts()
	if f.Manifest || f.InputsDir {
		t.Errorf("manifest there: %v, inputs there: %v", f.Manifest, f.InputsDir)
	}
	if f.TempMode != "drwx------" {
		t.Errorf("tmp is %s", f.TempMode)
	}
}

func TestFileEntriesAreLaidOutWithoutExecuteBits(t *testing.T) {
	b := newBed(t, "cat", "a.txt", "deep/er/b.txt")
	content := []byte("from a file")
	b.m.Entries = []wire.Entry{
		{Path: wire.MustRelPath("a.txt"), Kind: wire.File, Inline: []byte("inline"), Size: 6},
		{Path: wire.MustRelPath("deep/er/b.txt"), Kind: wire.File, URL: b.input("b", content), Size: int64(len(content))},
	}
	_, stdout := b.exited(0)
	want := "a.txt -rw-r--r-- \"inline\"\ndeep/er/b.txt -rw-r--r-- \"from a file\"\n"
	if stdout != want {
		t.Errorf("stdout %q, want %q", stdout, want)
	}
}

func TestAnInputOfAnotherSizeIsAFailure(t *testing.T) {
	for _, size := range []int64{0, 4, 6, 1 << 40} {
		b := newBed(t, "exit", "0")
		b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: b.input("a", []byte("12345")), Size: size}}
		b.failedWith(wire.StageFetch, wire.CodeSizeMismatch)
	}
}

func TestAnInputThatIsMissingOrNoFileIsAFailure(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: "file://" + b.work + "/in/a", Size: 1}}
	b.failedWith(wire.StageFetch, wire.CodeNotFound)

	b = newBed(t, "exit", "0")
	url := b.input("a", []byte("x"))
	link := filepath.Join(b.work, "in", "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: strings.TrimSuffix(url, "/a") + "/link", Size: 1}}
	b.failedWith(wire.StageFetch, wire.CodeIO)

	b = newBed(t, "exit", "0")
	url = b.input("a", nil)
	fifo := filepath.Join(b.work, "in", "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: strings.TrimSuffix(url, "/a") + "/fifo", Size: 0}}
	b.failedWith(wire.StageFetch, wire.CodeIO)
}

func TestWhateverStandsAtTheResultsPlaceGivesWay(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"file", "symlink", "directory", "no-rights"} {
		b := newBed(t, "plant", what, target)
		b.exited(0)
		info, err := os.Stat(filepath.Join(b.work, "out.tar"))
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v (%v)", what, info.Mode(), err)
		}
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "untouched" {
		t.Errorf("the link's target holds %q (%v)", b, err)
	}
}

func TestAManifestOfAnotherVersionIsAnsweredBySaying(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.writeManifest()
	path := filepath.Join(b.work, "manifest.json")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(document), `"wire":1`, `"unknown_field":[],"wire":2`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitStored {
		t.Fatalf("the agent ended with %d", code)
	}
	r, _ := b.result()
	if r.Ending != wire.EndFailed || r.Failure.Stage != wire.StageManifest || r.Failure.Code != wire.CodeWireVersion {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

func TestWithoutAUsableManifestThereIsNoResult(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "not json": "{", "no key": `{"wire":1}`[:9], "too large": strings.Repeat(" ", wire.ManifestCap+1),
	} {
		b := newBed(t, "exit", "0")
		if err := os.WriteFile(filepath.Join(b.work, "manifest.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitManifest {
			t.Errorf("%s: the agent ended with %d, want %d", name, code, agent.ExitManifest)
		}
		if left := b.leftOver(); !slices.Equal(left, []string{"manifest.json"}) {
			t.Errorf("%s: %q stands there", name, left)
		}
	}
	b := newBed(t, "exit", "0")
	if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitManifest {
		t.Errorf("missing: the agent ended with %d, want %d", code, agent.ExitManifest)
	}
}

func TestURLsThatCanNotBeFollowedAreAUsageError(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.writeManifest()
	for _, bad := range []string{"", "x", "/work/manifest.json", "ftp://h/x", "file://host/x", "file:", "file:///", "https://", "http://u:p@h/", "file:///x?y", "http://h/\x00"} {
		if code := agent.Run(t.Context(), bad, b.out(), b.opts); code != agent.ExitUsage {
			t.Errorf("--in %q: %d", bad, code)
		}
		if code := agent.Run(t.Context(), b.in(), bad, b.opts); code != agent.ExitUsage {
			t.Errorf("--out %q: %d", bad, code)
		}
	}
	if left := b.leftOver(); !slices.Equal(left, []string{"manifest.json"}) {
		t.Errorf("%q stands there", left)
	}
}

func TestAPlaceThatCanNotBeWrittenIsAnErrorBeforeTheScannerStarts(t *testing.T) {
	b := newBed(t, "grow", "1")
	b.writeManifest()
	if code := agent.Run(t.Context(), b.in(), "file:///no/such/directory/out.tar", b.opts); code != agent.ExitStore {
		t.Errorf("the agent ended with %d, want %d", code, agent.ExitStore)
	}
	if slices.Contains(b.leftOver(), "grown") {
		t.Error("the scanner was started")
	}
}
