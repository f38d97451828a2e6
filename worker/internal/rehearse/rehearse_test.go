package rehearse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

func TestAScannerThatNoAgentWouldRunIsRefusedAtLoad(t *testing.T) {
	for text, want := range map[string]string{
		"command = \"x\"\nlayout = { files = { \"a\" = \"\", \"a/b\" = \"\" } }":                  `:2: scanner 'x' can't be run: its layout has a file "a" and below it "a/b"`,
		"command = \"x\"\nlayout = { path = \"a\", files = { \"a\" = \"\" } }":                    `:2: scanner 'x' can't be run: `,
		"command = \"x\"\nlayout = { kind = \"file\", path = \"a\", files = { \"a/b\" = \"\" } }": `:2: scanner 'x' can't be run: its layout has a file "a" and below it "a/b"`,
		"command = \"x\"\nlayout = { path = \"a/b\", files = { \"a\" = \"\" } }":                  `:2: scanner 'x' can't be run: its layout has a file "a" and below it "a/b"`,
		"command = \"x\"\nlayout = { nested = [{ member = \"a*b*\", into = \"c\" }] }":            `:2: scanner 'x' can't be run: `,
		"type = \"nope\"":                   `type "nope" of scanner 'x' is not known`,
		"args = [\"a\"]":                    `scanner 'x' has no command`,
		"findings = \"f\"\ncommand = \"x\"": `scanner 'x'`,
		"command = \"x\"\nargs = [\"" + strings.Repeat("a", 1<<19) + "\"]": `argv has`,
	} {
		err := Config(load(t, "\n[scanners.x]\n"+text+"\n"))
		if err == nil || !config.IsConfig(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// pinned is a configuration under that runtime with a digest for that name in
// line 6.
func pinned(runtime, name string) string {
	return "[worker.sandbox]\nruntime = \"" + runtime + "\"\n[scanners.evil]\ncommand = \"evil\"\n[worker.sandbox.crun.digests]\n" + name + " = \"" + sum + "\"\n"
}

func TestADigestThatIsPinnedForAScannerWithASlipIsRefused(t *testing.T) {
	const beside = " (the digest of a room without a scanner goes beside it: sandboxctl tree --pin)"
	for name, want := range map[string]string{
		"evil": "", "gitleaks": "", "trivy": "",
		"evli":    `:6: [worker.sandbox.crun.digests] pins "evli", which is no scanner here; did you mean "evil"?` + beside,
		"gitleak": `:6: [worker.sandbox.crun.digests] pins "gitleak", which is no scanner here; did you mean "gitleaks"?` + beside,
	} {
		c := load(t, pinned("crun", name))
		err := Config(c)
		switch {
		case want == "" && (err != nil || len(c.Warnings) > 0):
			t.Errorf("%s: %v, warnings %v", name, err, c.Warnings)
		case want != "" && (err == nil || !config.IsConfig(err) || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// It may be the pin of a room for commands, or of a scanner of another host's.
func TestADigestThatIsPinnedForNoScannerIsAWarning(t *testing.T) {
	c := load(t, pinned("crun", "faraway9"))
	const want = `:6: [worker.sandbox.crun.digests] pins "faraway9", which is no scanner here; it holds for sandboxctl run --room faraway9 alone`
	if err := Config(c); err != nil || len(c.Warnings) != 1 || !strings.HasSuffix(c.Warnings[0].String(), want) {
		t.Errorf("%v, warnings %v, want %s", err, c.Warnings, want)
	}
	if c.Worker.Sandbox.Crun.Digests["faraway9"] != sum {
		t.Errorf("digests %v", c.Worker.Sandbox.Crun.Digests)
	}
}

func TestDigestsAreNobodysUnderAnotherRuntime(t *testing.T) {
	for _, name := range []string{"evli", "faraway9"} {
		c := load(t, pinned("bwrap", name))
		before := len(c.Warnings)
		if err := Config(c); err != nil || len(c.Warnings) != before {
			t.Errorf("%s: %v, warnings %v", name, err, c.Warnings)
		}
	}
}

func TestWhatCanBeRunIsNotRefused(t *testing.T) {
	for _, text := range []string{
		"", "[scanners.gitleaks]\n[scanners.trivy]\n[scanners.postmortem]\n[scanners.guarddog]\necosystems = [\"go\"]\n",
		"[scanners.osv]\n", "[scanners.x]\ncommand = \"x\"\nargs = [\"{name}\"]\nlayout = { path = \"a\", files = { \"b\" = \"\", \"ab/c\" = \"\" } }\n",
	} {
		if err := Config(load(t, text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
