//go:build !nokubernetes

package config

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

const podRuntime = "[worker.sandbox]\nruntime = \"kubernetes\"\n"

// podReaches are configurations that find other orphans each.
var podReaches = []string{
	podRuntime + s3Backend,
	podRuntime + podTable + "namespace = \"other\"\n" + s3Backend,
	podRuntime + "bundle_prefix = \"other/\"\n" + s3Backend,
}

// podRefusals are the rules of a configuration that chooses the kubernetes
// runtime.
var podRefusals = []refusal{
	{"as much unpacked as there is memory", podRuntime + "max_extracted_mb = 2048", `:3: max_extracted_mb is 2048 and memory_limit_mb 2048: under runtime 'kubernetes' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb`},
	{"storage that is not there", podRuntime, `:2: the kubernetes runtime moves bundles through the storage backend and [storage] declares none; add a [storage.backends.<name>] with an S3-compatible backend`},
	{"a directory for bundles", podRuntime + fsBackend, `:2: the kubernetes runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"memory for bundles", podRuntime + "[storage.backends.m]\ntype = \"in_memory\"", `:2: the kubernetes runtime moves bundles through the storage backend and 'in_memory' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"a directory named for bundles", podRuntime + "bundle_backend = \"disk\"\n[storage]\ndefault = \"s3\"\n" + fsBackend + s3Backend, `:3: the kubernetes runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"an undeclared bundle backend", podRuntime + "bundle_backend = \"minio\"\n" + fsBackend + s3Backend, `:3: bundle_backend 'minio' is not declared in [storage]; it declares disk, s3`},
	{"a loopback endpoint", podRuntime + "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://localhost:9000\"", `:6: the endpoint of backend 'x' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach`},
}

func TestEachRuleOfTheKubernetesRuntimeIsOneLine(t *testing.T) {
	checkRefusals(t, podRefusals)
}

func TestAPodIsDescribedInTheClustersOwnWords(t *testing.T) {
	c := load(t, podRuntime+s3Backend+podTable+`
namespace = "batlehub-sandbox"
runtime_class = "gvisor"
own_kernel = true
node_selector = { "kubernetes.io/arch" = "amd64" }
tolerations = [{ key = "sandbox", operator = "Exists", effect = "NoSchedule" }, { tolerationSeconds = 5 }]
priority_class = "low"
image_pull_secrets = ["pull"]
[worker.sandbox.kubernetes.annotations]
"example.org/team" = "security"
[[worker.sandbox.kubernetes.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution]]
topologyKey = "kubernetes.io/hostname"
`)
	got := c.Worker.Sandbox.Kubernetes
	got.Affinity = nil
	want := Kubernetes{
		Namespace: "batlehub-sandbox", ServiceAccount: "batlehub-sandbox", RuntimeClass: "gvisor", OwnKernel: true,
		NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"}, PriorityClass: "low", ImagePullSecrets: []string{"pull"},
		Tolerations: []map[string]any{
			{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}, {"tolerationSeconds": int64(5)},
		},
		Annotations: map[string]string{"example.org/team": "security"}, OrphanAfterSecs: 900,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if words := maps.Keys(c.Worker.Sandbox.Kubernetes.Affinity); len(c.Worker.Sandbox.Kubernetes.Affinity) != 1 {
		t.Errorf("affinity %v", words)
	}
	if len(c.Warnings) != 0 || c.Worker.Sandbox.OrphanAfter() != 15*time.Minute {
		t.Errorf("warnings %v, orphans after %s", c.Warnings, c.Worker.Sandbox.OrphanAfter())
	}
}

func TestARunDirectoryHasNoEffectOnPods(t *testing.T) {
	c := load(t, podRuntime+"run_dir = \"/tmp\"\n"+s3Backend)
	if len(c.Warnings) != 1 || !strings.HasSuffix(c.Warnings[0].String(), `:3: run_dir has no effect under runtime "kubernetes", whose runs have no directory here`) {
		t.Errorf("warnings %v", c.Warnings)
	}
}

// The RFC's own example, whose backends are elsewhere in its file.
func TestTheRFCsExampleLoads(t *testing.T) {
	c := load(t, `
[worker.sandbox]
runtime         = "kubernetes"
memory_limit_mb = 2048
cpu_seconds     = 300
[worker.sandbox.kubernetes]
namespace       = "batlehub-sandbox"
runtime_class   = "gvisor"
image           = "registry.example/batlehub-sandbox-postmortem@sha256:`+strings.Repeat("a", 64)+`"
[scanners.guarddog]
command = "guarddog"
image   = "registry.example/batlehub-sandbox-guarddog@sha256:`+strings.Repeat("b", 64)+`"
`+s3Backend)
	s := c.Worker.Sandbox
	if s.Kubernetes.RuntimeClass != "gvisor" || s.DefaultImage() != s.Kubernetes.Image || c.Scanners["guarddog"].Image == "" || !s.Images() || !s.StorageHop() {
		t.Errorf("%+v, %+v", s, c.Scanners)
	}
}

// The page of the runtime has an example too.
func TestTheKubernetesPagesExamplesLoad(t *testing.T) {
	b, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	if len(examples) == 0 {
		t.Fatal("there is no example")
	}
	for _, e := range examples {
		if _, err := Load(write(t, "example.toml", e[1])); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}
