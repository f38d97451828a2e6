package chart_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gotoml "github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// configOf loads a case's config.toml as the worker does.
func configOf(t *testing.T, name string, over ...string) *config.Config {
	t.Helper()
	m := object[corev1.ConfigMap](t, documents(t, render(t, name, over...)), "ConfigMap/batlehub-sandbox")
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(m.Data["config.toml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, m.Data["config.toml"])
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%s: %v", name, c.Warnings)
	}
	return c
}

func TestTheWorkerLoadsEveryRenderedConfiguration(t *testing.T) {
	for _, name := range cases(t) {
		c := configOf(t, name)
		want, _, _ := strings.Cut(name, "-")
		if c.Worker.Sandbox.Runtime != want || len(c.Scanners) == 0 {
			t.Errorf("%s: runtime %q, %d scanners", name, c.Worker.Sandbox.Runtime, len(c.Scanners))
		}
	}
}

// Every key of the runtime reaches the worker as it was said.
func TestEveryValueOfTheRuntimeReachesTheWorker(t *testing.T) {
	c := configOf(t, "kubernetes-full")
	want := config.Kubernetes{
		Namespace: "scans", ServiceAccount: "scans", RuntimeClass: "gvisor", OwnKernel: true, PriorityClass: "scans",
		Image:        "registry.example.com/rooms@sha256:" + strings.Repeat("7", 64),
		NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"}, Annotations: map[string]string{"example.com/team": "security"},
		Tolerations: []map[string]any{{"key": "scans", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": int64(30)}},
		Affinity: map[string]any{"nodeAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
			"weight": int64(10), "preference": map[string]any{"matchExpressions": []any{map[string]any{
				"key": "node-role", "operator": "In", "values": []any{"scans", `a "quoted" one`},
			}}},
		}}}},
		ImagePullSecrets: []string{"pull-a", "pull-b"}, OrphanAfterSecs: 1800,
	}
	if !reflect.DeepEqual(c.Worker.Sandbox.Kubernetes, want) {
		t.Errorf("the worker has\n%+v\nwant\n%+v", c.Worker.Sandbox.Kubernetes, want)
	}
	if c.Worker.Sandbox.MemoryLimitMB != 1024 || c.Worker.Sandbox.BundleBackend != "minio" || !reflect.DeepEqual(c.Worker.Registries, []string{"npm", "pypi"}) {
		t.Errorf("the worker has %+v", c.Worker)
	}
	if y := c.Scanners["yara"]; y.Command != "yara" || !reflect.DeepEqual(y.Args, []string{"-r", "/usr/share/yara/install-scripts.yar", "{artifact}"}) {
		t.Errorf("yara is %+v", y)
	}
	if _, enabled := c.Scanners["guarddog"]; enabled || c.Scanners["trivy"].Endpoint != "http://trivy.trivy.svc:4954" || c.Scanners["gitleaks"].Timeout.String() != "1m30s" {
		t.Errorf("the scanners are %+v", c.Scanners)
	}
	if other := configOf(t, "kubernetes"); other.Worker.Sandbox.Kubernetes.Namespace != "batlehub" {
		t.Errorf("without a namespace pods are made in %q, want the release's", other.Worker.Sandbox.Kubernetes.Namespace)
	}
}

// Whatever a string of the values holds, it stays one string of the configuration.
func TestNoStringOfTheValuesGetsOutOfItsQuotes(t *testing.T) {
	odd := []string{
		`a "b" \c`, "'''", `"""`, "# no comment", "tab\tnew\nline\r", "\x01\x1b\x7f", "é☃\u2028", "<&>", "$(id)", " ", "true", "12", "1979-05-27",
		"\"]\n[worker.sandbox]\nruntime = \"none\"",
	}
	args, err := json.Marshal(odd)
	if err != nil {
		t.Fatal(err)
	}
	c := configOf(t, "kubernetes", `scanners: {own: {enabled: true, image: "a@sha256:`+strings.Repeat("9", 64)+`", type: command, command: own, findings: lines, args: `+strings.ReplaceAll(string(args), "\x7f", `\u007f`)+`}}`)
	if got := c.Scanners["own"].Args; !reflect.DeepEqual(got, odd) {
		t.Errorf("the worker has\n%q\nwant\n%q", got, odd)
	}
}

// A value of the chart has the default of its key in the configuration, where it
// has one.
func TestAnUnsetValueIsTheConfigurationsDefault(t *testing.T) {
	values := defaults(t)
	// Chosen for this chart, each with its reason beside it in values.yaml.
	own := map[string]bool{"scanners.postmortem.timeline": true}
	compared := 0
	for _, k := range config.Keys() {
		for path, value := range at(values, "", k.Path()) {
			if own[path] {
				continue
			}
			var want struct{ X any }
			if err := gotoml.Unmarshal([]byte("X = "+k.Default), &want); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(value) != fmt.Sprint(want.X) {
				t.Errorf("%s is %v, the configuration's default is %v", path, value, want.X)
			}
			compared++
		}
	}
	if compared < 30 {
		t.Errorf("%d defaults were compared", compared)
	}
}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(b, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// at finds what stands at a key's path, "<name>" being any name.
func at(values any, below, path string) map[string]any {
	name, rest, more := strings.Cut(path, ".")
	table, _ := values.(map[string]any)
	found := map[string]any{}
	for key, value := range table {
		here := strings.TrimPrefix(below+"."+key, ".")
		switch {
		case name != key && name != "<name>":
		case more:
			maps.Copy(found, at(value, here, rest))
		default:
			found[here] = value
		}
	}
	return found
}

// schema is the part of values.schema.json that these tests look at.
type schema struct {
	Type                 any
	Enum                 []string
	Minimum, Maximum     *int64
	Properties           map[string]*schema
	AdditionalProperties json.RawMessage
}

// omitted are the configuration's keys that the chart leaves out, with the reason.
var omitted = map[string]string{
	"worker.sandbox.kubernetes.kubeconfig":        "a worker in a cluster is in that cluster",
	"storage.backends.<name>.access_key":          "a ConfigMap is no place for a secret",
	"storage.backends.<name>.secret_key":          "a ConfigMap is no place for a secret",
	"scanners.<name>.api_key":                     "a ConfigMap is no place for a secret",
	"scanners.<name>.seccomp_profile":             "the runtime crun has no place in a pod",
	"scanners.<name>.seccomp_sha256":              "the runtime crun has no place in a pod",
	"scanners.<name>.layout.kind":                 "within layout, which is taken as it is",
	"scanners.<name>.layout.path":                 "within layout",
	"scanners.<name>.layout.nested":               "within layout",
	"scanners.<name>.layout.files":                "within layout",
	"worker.sandbox.oci.*, worker.sandbox.crun.*": "no engine's socket belongs in a pod",
}

// The schema knows every key of the configuration by its type and bounds, and no
// value that it does not know is let through.
func TestTheSchemaIsTheConfigurations(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	types := map[config.Type]string{
		config.String: "string", config.Integer: "integer", config.Boolean: "boolean", config.Strings: "array",
		config.Table: "object", config.Tables: "array", config.SecretString: "string",
	}
	for _, k := range config.Keys() {
		path := k.Path()
		if strings.HasPrefix(path, "worker.sandbox.oci.") || strings.HasPrefix(path, "worker.sandbox.crun.") || omitted[path] != "" {
			continue
		}
		s := root.at(strings.Split(path, "."))
		switch {
		case s == nil:
			t.Errorf("the schema has no %s", path)
		case k.Type == config.Duration, k.Type == config.LayoutValue, s.Type == nil:
		case s.Type != types[k.Type]:
			t.Errorf("%s is of type %v, want %s", path, s.Type, types[k.Type])
		case k.Type == config.Integer && (s.Minimum == nil || *s.Minimum != k.Min || k.Max > 0 && (s.Maximum == nil || *s.Maximum != k.Max)):
			t.Errorf("%s is bounded otherwise than %d to %d", path, k.Min, k.Max)
		}
	}
}

func (s *schema) at(path []string) *schema {
	if len(path) == 0 || s == nil {
		return s
	}
	if path[0] == "<name>" {
		var any schema
		if json.Unmarshal(s.AdditionalProperties, &any) != nil {
			return nil
		}
		return any.at(path[1:])
	}
	return s.Properties[path[0]].at(path[1:])
}

// A run executes whatever its image's name stands for: no tag appears.
func TestEveryImageIsNamedByItsDigest(t *testing.T) {
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	for _, name := range cases(t) {
		c := configOf(t, name)
		for scanner, s := range c.Scanners {
			if pods := c.Worker.Sandbox.Runtime == "kubernetes"; pods != digest.MatchString(s.Image) || !pods && s.Image != "" {
				t.Errorf("%s: the image of %s is %q", name, scanner, s.Image)
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^ *image: "?([^"\n]*)`).FindAllStringSubmatch(render(t, name), -1) {
			if !digest.MatchString(m[1]) {
				t.Errorf("%s: an image is %q", name, m[1])
			}
		}
	}
	names := slices.Sorted(maps.Keys(defaults(t)["scanners"].(map[string]any)))
	for _, want := range []string{"guarddog", "postmortem", "trivy"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s has no slim image by default; there are %v", want, names)
		}
	}
}
