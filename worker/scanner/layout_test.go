package scanner

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

func TestAConfiguredLayoutKeepsTheFilesOfItsType(t *testing.T) {
	for name, own := range map[string]map[string]string{
		"no files": nil, "another file": {"rules.txt": "x"}, "its own configuration": {"gitleaks.toml": "own"},
	} {
		d, err := Define(config.Scanner{Name: "gitleaks", Layout: &config.Layout{Kind: "archive", Path: "scan/elsewhere", Files: own}})
		if err != nil {
			t.Fatal(err)
		}
		want := predefined["gitleaks"].Layout.Files["gitleaks.toml"]
		if own["gitleaks.toml"] != "" {
			want = "own"
		}
		if got := d.Layout.Files["gitleaks.toml"]; got != want || got == "" {
			t.Errorf("%s: gitleaks.toml is %q, want %q", name, got, want)
		}
		if own["rules.txt"] != d.Layout.Files["rules.txt"] {
			t.Errorf("%s: rules.txt is %q", name, d.Layout.Files["rules.txt"])
		}
	}
	if len(predefined["gitleaks"].Layout.Files) != 1 {
		t.Error("the type's own files changed")
	}
}
