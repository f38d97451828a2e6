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

const (
	podRuntime = "[worker.sandbox]\nruntime = \"kubernetes\"\n"
	podTable   = "[worker.sandbox.kubernetes]\n"
)

// podRefusals are the rules of the kubernetes runtime, each with the whole
// message behind "config.toml".
var podRefusals = []struct{ name, text, want string }{
	{"a namespace's name", podTable + "namespace = \"Sand_box\"", `:2: namespace "Sand_box" is no namespace's name; want 1 to 63 of a-z 0-9 - between letters or digits`},
	{"no service account", podTable + "service_account = \"\"", `:2: worker.sandbox.kubernetes.service_account is empty; leave the key out for the default`},
	{"a service account's name", podTable + "service_account = \"a b\"", `:2: service_account "a b" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a runtime class's name", podTable + "runtime_class = \"gVisor\"", `:2: runtime_class "gVisor" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a pull secret without a name", podTable + "image_pull_secrets = [\"a\", \"\"]", `:2: image_pull_secrets "" is no name of an object; want a-z 0-9 - . between letters or digits`},
	{"a kernel of its own without a class", podTable + "own_kernel = true", `:2: own_kernel is true without a runtime_class: the nodes' own kernel is nobody's alone; set runtime_class to one of gVisor's, or leave own_kernel out`},
	{"a selector whose name is not quoted", podTable + "node_selector = { kubernetes.io/arch = \"amd64\" }", ``},
	{"a selector that is no string", podTable + "node_selector = { gpu = true }", `:2: node_selector "gpu" is true, want a string; a name with dots in it has to be quoted`},
	{"a selector with dots", podTable + "node_selector = { topology.zone = \"a\" }", `:2: node_selector "topology" is a table, want a string; a name with dots in it has to be quoted`},
	{"an annotation that is no string", podTable + "annotations = { a = 1 }", `:2: annotations "a" is the number 1, want a string; a name with dots in it has to be quoted`},
	{"a toleration in the wrong words", podTable + "tolerations = [{ toleration_seconds = 1 }]", `:2: tolerations has an entry with "toleration_seconds"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration of an unknown operator", podTable + "tolerations = [{ key = \"a\", operator = \"In\" }]", `:2: tolerations has an entry whose operator is "In"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration of an unknown effect", podTable + "tolerations = [{ effect = \"noSchedule\" }]", `:2: tolerations has an entry whose effect is "noSchedule"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"a toleration's time", podTable + "tolerations = [{ tolerationSeconds = \"1\" }]", `:2: tolerations has an entry whose tolerationSeconds is the string "1"; want { key = "…", operator = "Exists" or "Equal", value = "…", effect = "NoSchedule" }, as in a pod's spec`},
	{"an affinity in the wrong words", podTable + "affinity = { node_affinity = {} }", `:2: affinity has "node_affinity"; one of nodeAffinity, podAffinity, podAntiAffinity, each as in a pod's spec`},
	{"an affinity of a node in the wrong words", podTable + "affinity = { nodeAffinity = { foo = 1 } }", `:2: affinity.nodeAffinity has "foo"; one of preferredDuringSchedulingIgnoredDuringExecution, requiredDuringSchedulingIgnoredDuringExecution, each as in a pod's spec`},
	{"an affinity that is no table", podTable + "affinity = { nodeAffinity = 1 }", `:2: affinity.nodeAffinity is the number 1, want a table as in a pod's spec`},
	{"an affinity of pods that is no array", podTable + "[worker.sandbox.kubernetes.affinity.podAffinity]\nrequiredDuringSchedulingIgnoredDuringExecution = {}", `:3: affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution is a table, want an array as in a pod's spec`},
	{"a slip deep in an affinity", podTable + "[[worker.sandbox.kubernetes.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms]]\nmatchExpressions = [{ key = \"a\", op = \"In\" }]", `:3: affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0] has "op"; one of key, operator, values, each as in a pod's spec`},
	{"a weight that is no number", podTable + "[[worker.sandbox.kubernetes.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution]]\nweight = \"1\"", `:3: affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight is the string "1", want a whole number`},
	{"labels that are no strings", podTable + "affinity = { podAffinity = { requiredDuringSchedulingIgnoredDuringExecution = [{ topologyKey = \"a\", labelSelector = { matchLabels = { a = 1 } } }] } }", `:2: affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels.a is the number 1, want a string`},
	{"an orphan's age of nothing", podTable + "orphan_after_secs = 0", `:2: worker.sandbox.kubernetes.orphan_after_secs is 0, want 1 to 2592000`},
	{"a key with a slip", podTable + "runtimeclass = \"x\"", `:2: unknown key "runtimeclass" in [worker.sandbox.kubernetes]; did you mean "runtime_class"?`},

	{"as much unpacked as there is memory", podRuntime + "max_extracted_mb = 2048", `:3: max_extracted_mb is 2048 and memory_limit_mb 2048: under runtime 'kubernetes' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb`},
	{"storage that is not there", podRuntime, `:2: the kubernetes runtime moves bundles through the storage backend and [storage] declares none; add a [storage.backends.<name>] with an S3-compatible backend`},
	{"a directory for bundles", podRuntime + fsBackend, `:2: the kubernetes runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"memory for bundles", podRuntime + "[storage.backends.m]\ntype = \"in_memory\"", `:2: the kubernetes runtime moves bundles through the storage backend and 'in_memory' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"a directory named for bundles", podRuntime + "bundle_backend = \"disk\"\n[storage]\ndefault = \"s3\"\n" + fsBackend + s3Backend, `:3: the kubernetes runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"an undeclared bundle backend", podRuntime + "bundle_backend = \"minio\"\n" + fsBackend + s3Backend, `:3: bundle_backend 'minio' is not declared in [storage]; it declares disk, s3`},
	{"a loopback endpoint", podRuntime + "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://localhost:9000\"", `:6: the endpoint of backend 'x' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach`},
}

func TestEachRuleOfTheKubernetesRuntimeIsOneLine(t *testing.T) {
	for _, r := range podRefusals {
		t.Run(r.name, func(t *testing.T) {
			file := write(t, "config.toml", r.text+"\n")
			_, err := Load(file)
			if err == nil {
				t.Fatal("it loaded")
			}
			if got := strings.TrimPrefix(err.Error(), file); r.want != "" && got != r.want {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
			if !IsConfig(err) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "SECRETWORD") {
				t.Errorf("%#v is not one line of an *Error, or names a secret", err)
			}
		})
	}
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
