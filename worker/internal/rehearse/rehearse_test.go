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

func TestADigestThatIsPinnedForNoScannerIsRefused(t *testing.T) {
	const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pinned := func(name string) string {
		return "[scanners.evil]\ncommand = \"evil\"\n[worker.sandbox.crun.digests]\n" + name + " = \"" + sum + "\"\n"
	}
	const beside = " (the digest of a room without a scanner goes beside it: sandboxctl tree --pin)"
	for name, want := range map[string]string{
		"evil": "", "gitleaks": "", "trivy": "",
		"evli":     `:4: [worker.sandbox.crun.digests] pins "evli", which is no scanner here; did you mean "evil"?` + beside,
		"gitleak":  `:4: [worker.sandbox.crun.digests] pins "gitleak", which is no scanner here; did you mean "gitleaks"?` + beside,
		"faraway9": `:4: [worker.sandbox.crun.digests] pins "faraway9", which is no scanner here; add [scanners.faraway9]` + beside,
	} {
		err := Config(load(t, pinned(name)))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !config.IsConfig(err) || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", name, err, want)
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
