package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// A placeholder that the configuration lets through and the scanner does not
// know would reach the program as it stands.
func TestEveryPlaceholderThatIsLetThroughIsFilledIn(t *testing.T) {
	text := "[scanners.x]\ncommand = \"x\"\nargs = ["
	for _, word := range config.Placeholders {
		text += "\"{" + word + "}\", "
	}
	// Braces of other kinds are a scanner's own.
	own := []string{"{}", "{3}", "{{.X}}", "{ print }", "{a,b}", "a{b"}
	for _, arg := range own {
		text += "\"" + arg + "\", "
	}
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte(text+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := scanner.Define(c.Scanners["x"])
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Plan(
		scanner.Target{Artifact: bundle.BytesArtifact([]byte("x")), Package: &scanner.Package{Ecosystem: "npm", Name: "n", Version: "1"}},
		scanner.Base{Worker: "w", Job: "j", Work: "/work", Limits: wire.DefaultLimits(), Policy: wire.DefaultExtractPolicy(), StartTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"x", "/work/artifact", "/work", "n", "1", "npm"}, own...)
	if got := steps[0].Spec.Argv; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
