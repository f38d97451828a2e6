package chart_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
)

var update = flag.Bool("update", false, "write the golden files anew")

// dir is the chart, seen from this package.
const dir = "../../../deploy/chart"

// installed is what the goldens are rendered as.
var installed = chart.Release{Name: "batlehub-sandbox", Namespace: "batlehub"}

// released are the values that a release fills in, which a checkout lacks.
const released = "testdata/release.yaml"

// cases are the named files of values, without the ending.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values found: %v", err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".values.yaml")
	}
	return files
}

// valuesOf reads a case's values over a release's, and texts of YAML over both.
func valuesOf(t *testing.T, name string, over ...string) map[string]any {
	t.Helper()
	files := []string{released, filepath.Join("testdata", name+".values.yaml")}
	for i, text := range over {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	values, err := chart.Values(files...)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func render(t *testing.T, name string, over ...string) string {
	t.Helper()
	text, err := chart.Render(dir, installed, valuesOf(t, name, over...))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

// documents are the objects of a text by kind and name, as "Role/batlehub-sandbox".
func documents(t *testing.T, text string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	objects := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := objects.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if head.Kind == "" {
			continue
		}
		key := head.Kind + "/" + head.Metadata.Name
		if all[key] != nil {
			t.Errorf("%s stands twice", key)
		}
		all[key] = bytes.TrimPrefix(document, []byte("---\n"))
	}
}

func TestTheRendersAreTheGoldens(t *testing.T) {
	for _, name := range cases(t) {
		golden := filepath.Join("testdata", name+".golden.yaml")
		got := render(t, name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from the render: look at it, then go test ./heavy/internal/chart -update\n%s", golden, firstDifference(got, string(want)))
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is\n%s\nwant\n%s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestLintFindsNothing(t *testing.T) {
	for _, name := range cases(t) {
		if found := chart.Lint(dir, installed, valuesOf(t, name)); len(found) > 0 {
			t.Errorf("%s: %s", name, strings.Join(found, "\n"))
		}
	}
	// It is Helm's own and sees a chart that is broken.
	broken := t.TempDir()
	if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "templates", "broken.yaml"), []byte("{{ .Values.nothing.here }}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(chart.Lint(broken, installed, valuesOf(t, "bwrap"))) == 0 {
		t.Error("lint takes a template that can't be rendered")
	}
}

// Choosing kubernetes adds its objects, and changes of the others nothing but the
// configuration and its digest.
func TestKubernetesAddsItsObjectsAndChangesNothingElse(t *testing.T) {
	plain := documents(t, render(t, "kubernetes", "worker: {sandbox: {runtime: bwrap}}"))
	pods := documents(t, render(t, "kubernetes"))
	added := map[string]bool{
		"Role/batlehub-sandbox": true, "RoleBinding/batlehub-sandbox": true, "ServiceAccount/batlehub-sandbox": true,
		"NetworkPolicy/batlehub-sandbox-storage": true, "NetworkPolicy/batlehub-sandbox-egress": true, "NetworkPolicy/batlehub-sandbox-deny": true,
		"ResourceQuota/batlehub-sandbox": true,
	}
	for key := range pods {
		if plain[key] == nil && !added[key] {
			t.Errorf("%s is added", key)
		}
	}
	for key := range added {
		if plain[key] != nil || pods[key] == nil {
			t.Errorf("%s: before %v, after %v", key, plain[key] != nil, pods[key] != nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		if key == "ConfigMap/batlehub-sandbox" {
			continue
		}
		before, after := withoutChecksum(plain[key]), withoutChecksum(pods[key])
		if !bytes.Equal(before, after) {
			t.Errorf("%s is changed: %s", key, firstDifference(string(after), string(before)))
		}
	}
	if bytes.Equal(plain["ConfigMap/batlehub-sandbox"], pods["ConfigMap/batlehub-sandbox"]) {
		t.Error("both have the same configuration")
	}
}

func withoutChecksum(document []byte) []byte {
	var kept [][]byte
	for line := range bytes.Lines(document) {
		if !bytes.Contains(line, []byte("checksum/config: ")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, nil)
}

// What an upgrade with unchanged values renders does not depend on when or how
// often it is rendered.
func TestARenderIsTheSameEveryTime(t *testing.T) {
	for _, name := range cases(t) {
		first := render(t, name)
		for range 3 {
			if again := render(t, name); again != first {
				t.Fatalf("%s: %s", name, firstDifference(again, first))
			}
		}
	}
}

func TestTheNotesNameTheNamespaceToLabel(t *testing.T) {
	for name, want := range map[string]string{
		"bwrap":           "worker.sandbox.runtime to kubernetes",
		"kubernetes":      "kubectl label namespace batlehub pod-security.kubernetes.io/enforce=restricted",
		"kubernetes-full": "Each run of a scanner is a pod in the namespace scans.",
	} {
		notes, err := chart.Notes(dir, installed, valuesOf(t, name))
		if err != nil || !strings.Contains(notes, want) {
			t.Errorf("%s: %v: the notes lack %q:\n%s", name, err, want, notes)
		}
	}
}
