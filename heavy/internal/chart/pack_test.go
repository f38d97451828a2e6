package chart_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
)

// The table of values is made from values.yaml, and is what a reader of the
// README finds.
func TestTheReadmeHasEveryValueWithItsDefault(t *testing.T) {
	want, err := chart.Readme(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("deploy/chart/README.md is not what values.yaml says: ./task helm:docs\n%s", firstDifference(string(got), string(want)))
	}
	values, err := chart.Documented(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) < 60 {
		t.Errorf("%d values are documented", len(values))
	}
	for _, v := range values {
		if !strings.Contains(string(got), "| `"+v.Path+"` | "+v.Type+" | `") || v.Doc == "" || v.Type == "" {
			t.Errorf("%+v is not documented", v)
		}
	}
}

func published() chart.Published {
	p := chart.Published{Version: "v1.4.0", Prefix: "registry.example.com/batlehub-sandbox-", Digests: map[string]string{}}
	for i, name := range []string{"worker", "gitleaks", "guarddog", "postmortem", "trivy", "clamav", "syft", "yara", "agent"} {
		p.Digests[name] = "sha256:" + strings.Repeat(fmt.Sprint(i+1), 64)
	}
	return p
}

// A released chart names its release's images by their digests and nothing has to
// be said about them.
func TestAReleasedChartNamesItsReleasesImages(t *testing.T) {
	file, err := chart.Pack(dir, t.TempDir(), published())
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(file) != "batlehub-sandbox-1.4.0.tgz" {
		t.Errorf("the archive is %s", file)
	}
	unpacked := t.TempDir()
	if err := chartutil.ExpandFile(unpacked, file); err != nil {
		t.Fatal(err)
	}
	unpacked = filepath.Join(unpacked, "batlehub-sandbox")
	c, err := loader.LoadDir(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.4.0" || c.Metadata.AppVersion != "1.4.0" {
		t.Errorf("the chart is %+v", c.Metadata)
	}
	values, err := chart.Values("testdata/kubernetes.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := chart.Render(unpacked, installed, values)
	if err != nil {
		t.Fatal(err)
	}
	for name, digit := range map[string]string{"gitleaks": "2", "guarddog": "3", "postmortem": "4"} {
		want := "[scanners." + name + `]
    image = "registry.example.com/batlehub-sandbox-` + name + "@sha256:" + strings.Repeat(digit, 64) + `"`
		if !strings.Contains(text, want) {
			t.Errorf("the configuration has no\n%s", want)
		}
	}
	worker := object[appsv1.Deployment](t, documents(t, text), "Deployment/batlehub-sandbox").Spec.Template.Spec.Containers[0]
	if want := "registry.example.com/batlehub-sandbox-worker@sha256:" + strings.Repeat("1", 64); worker.Image != want || worker.Env[0].Value != want {
		t.Errorf("the worker's image is %s, and it is told %s", worker.Image, worker.Env[0].Value)
	}
	// Nothing but those lines is another than in the checkout.
	for _, name := range []string{"values.yaml", "Chart.yaml"} {
		before, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(unpacked, name))
		if err != nil {
			t.Fatal(err)
		}
		changed := regexp.MustCompile(`(?m)^( *(prefix|worker|clamav|gitleaks|guarddog|postmortem|syft|trivy|yara|version|appVersion): ).*$`)
		b, a := changed.ReplaceAll(before, []byte("$1")), changed.ReplaceAll(after, []byte("$1"))
		if name == "values.yaml" && !bytes.Equal(a, b) {
			t.Errorf("%s: %s", name, firstDifference(string(a), string(b)))
		}
	}
}

// Every image that there is a Containerfile for can be named by its release, and
// the release's workflow packs the chart once all of them are pushed.
func TestTheReleasePacksTheChartWithEveryImage(t *testing.T) {
	digests := defaults(t)["images"].(map[string]any)["digests"].(map[string]any)
	files, err := filepath.Glob("../../../deploy/images/Containerfile.sandbox-*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Containerfile found: %v", err)
	}
	for _, file := range files {
		if _, name, _ := strings.Cut(file, "Containerfile.sandbox-"); digests[name] == nil {
			t.Errorf("images.digests has no %s", name)
		}
	}
	b, err := os.ReadFile("../../../.github/workflows/build.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Needs any
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal(b, &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["chart"]
	if needs := fmt.Sprint(job.Needs); needs != "[images worker]" {
		t.Errorf("the chart's job needs %s", needs)
	}
	var run strings.Builder
	for _, step := range job.Steps {
		run.WriteString(step.Run)
	}
	for _, want := range []string{"go run ./heavy/cmd/chart package ", "helm push "} {
		if !strings.Contains(run.String(), want) {
			t.Errorf("the chart's job never runs %q", want)
		}
	}
}

func TestAnImageThatWasNotReleasedIsNamed(t *testing.T) {
	p := published()
	delete(p.Digests, "guarddog")
	if _, err := chart.Pack(dir, t.TempDir(), p); err == nil || !strings.Contains(err.Error(), "guarddog") {
		t.Errorf("the error is %v", err)
	}
	p = published()
	p.Prefix = ""
	if _, err := chart.Pack(dir, t.TempDir(), p); err == nil {
		t.Error("images without names are packed")
	}
	p = published()
	p.Version = "main"
	if _, err := chart.Pack(dir, t.TempDir(), p); err == nil || !strings.Contains(err.Error(), "main") {
		t.Errorf("a version that is none: %v", err)
	}
	for _, wrong := range []string{"gitleaks", "gitleaks=latest", "gitleaks=sha256:00"} {
		if _, err := chart.ParseDigests([]string{wrong}); err == nil {
			t.Errorf("the digest %q is taken", wrong)
		}
	}
}
