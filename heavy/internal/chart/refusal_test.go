package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	worker "github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// A wrong value is refused in one line that names it and says what is wanted.
func TestAWrongValueIsRefusedInOneLine(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"worker: {sandbox: {runtime: docker}}", "'/worker/sandbox/runtime': value must be one of 'bwrap', 'kubernetes'"},
		{"worker: {sandbox: {runtime: none}}", "'/worker/sandbox/runtime': value must be one of 'bwrap', 'kubernetes'"},
		{"worker: {sandbox: {memory_limit_mb: 8}}", "'/worker/sandbox/memory_limit_mb': minimum: got 8, want 16"},
		{"worker: {sandbox: {memory_limit_mb: 2Gi}}", "'/worker/sandbox/memory_limit_mb': got string, want integer"},
		{"worker: {sandbox: {memory_limit: 2048}}", "'/worker/sandbox': additional properties 'memory_limit' not allowed"},
		{"worker: {sandbox: {kubernetes: {storage_egress: []}}}", "'/worker/sandbox/kubernetes': additional properties 'storage_egress' not allowed"},
		{"worker: {sandbox: {kubernetes: {storageEgress: [{cidr: 192.0.2.10/32}]}}}", "'/worker/sandbox/kubernetes/storageEgress/0': missing property 'port'"},
		{"worker: {sandbox: {kubernetes: {storageEgress: [{cidr: 192.0.2.10, port: 9000}]}}}", "'/worker/sandbox/kubernetes/storageEgress/0/cidr': '192.0.2.10' does not match pattern"},
		{"worker: {sandbox: {kubernetes: {namespace: Boxes}}}", "'/worker/sandbox/kubernetes/namespace': 'Boxes' does not match pattern"},
		{"worker: {image: 'registry.example.com/worker:1.0'}", "'/worker/image': 'registry.example.com/worker:1.0' does not match pattern"},
		{"scanners: {gitleaks: {image: gitleaks}}", "'/scanners/gitleaks/image': 'gitleaks' does not match pattern"},
		{"storage: {backends: {minio: {secret_key: hunter2}}}", "'/storage/backends/minio': additional properties 'secret_key' not allowed"},
		{"storage: {backends: {minio: {type: gcs}}}", "'/storage/backends/minio/type': value must be one of 's3', 'filesystem', 'in_memory'"},
		{"worker: {replicas: many}", "'/worker/replicas': got string, want integer"},

		{"scanners: {gitleaks: {enabled: false}, guarddog: {enabled: false}, postmortem: {enabled: false}}", "no scanner is enabled: set scanners.NAME.enabled to true for one"},
		{"worker: {sandbox: {max_extracted_mb: 2048}}", "worker.sandbox.max_extracted_mb (2048) has to be below memory_limit_mb (2048): /work is memory and charged to the same limit"},
		{"worker: {sandbox: {kubernetes: {storageEgress: []}}}", "worker.sandbox.kubernetes.storageEgress is empty: no sandbox could fetch its bundle"},
		{"worker: {sandbox: {kubernetes: {storageEgress: [{port: 9000}]}}}", "worker.sandbox.kubernetes.storageEgress[0] has no destination: want exactly one of cidr, fqdn and pods"},
		{"worker: {sandbox: {kubernetes: {egressAllow: [{cidr: 0.0.0.0/0, fqdn: example.com}]}}}", "worker.sandbox.kubernetes.egressAllow[0] has cidr and fqdn: want exactly one"},
		{"worker: {sandbox: {kubernetes: {egressAllow: [{fqdn: example.com, except: [10.0.0.0/8]}]}}}", "worker.sandbox.kubernetes.egressAllow[0] has except without the cidr that it is taken from"},
		{"storage: {backends: null}", "the kubernetes runtime moves bundles through the storage backend and storage.backends has none: add an S3-compatible one"},
		{"storage: {backends: {other: {type: s3}}}", "there is no default: set storage.default or worker.sandbox.bundle_backend to one of minio, other"},
		{"storage: {default: disk, backends: {disk: {type: filesystem}}}", "the kubernetes runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in worker.sandbox.bundle_backend"},
		{"worker: {sandbox: {bundle_backend: s3}}", "worker.sandbox.bundle_backend 's3' is not declared in storage.backends; it has minio"},
		{"worker: {sandbox: {kubernetes: {service_account: batlehub-sandbox-worker}}}", "worker.sandbox.kubernetes.service_account is batlehub-sandbox-worker, the worker's own account, which may make pods: name another"},
		{"worker: {sandbox: {kubernetes: {createNamespace: true}}}", "worker.sandbox.kubernetes.createNamespace: the sandboxes' namespace is the release's own"},
		{"worker: {resources: {limits: {memory: 1.5Gi}}}", `worker.resources.limits.memory is "1.5Gi", want a whole number of bytes or of Ki, Mi, Gi`},
		{"images: {digests: {gitleaks: ''}}", "scanners.gitleaks.image is empty, and this chart is no release's, whose images.prefix and images.digests.gitleaks would say it: set it to NAME@sha256:DIGEST"},
		{"images: {prefix: ''}", "is empty, and this chart is no release's"},
		{"scanners: {own: {enabled: true, command: own}}", "scanners.own.image is empty, and this chart is no release's"},
		// What the API server would refuse.
		{egress("cidr: 300.1.1.1/99, port: 9000"), `worker.sandbox.kubernetes.storageEgress[0].cidr is "300.1.1.1/99", which is no network: want one like 192.0.2.10/32`},
		{egress("cidr: 10.0.0.01/32, port: 9000"), "storageEgress[0].cidr is \"10.0.0.01/32\", which is no network"},
		{egress("cidr: 10.0.0/24, port: 9000"), "storageEgress[0].cidr is \"10.0.0/24\", which is no network"},
		{egress("cidr: '2001:db8::1::/64', port: 9000"), "storageEgress[0].cidr is \"2001:db8::1::/64\", which is no network"},
		{egress("cidr: '2001:db8:1/64', port: 9000"), "which is no network"},
		{egress("cidr: '1:2:3:4::5:6:7:8/64', port: 9000"), "which is no network"},
		{egress("cidr: '2001:db8::1/129', port: 9000"), "which is no network"},
		{egress("cidr: 10.0.0.5/24, port: 9000"), `worker.sandbox.kubernetes.storageEgress[0].cidr is "10.0.0.5/24", which has address bits behind its mask: want 10.0.0.0/24, or 10.0.0.5/32 for that address alone`},
		{egress("cidr: 10.255.255.255/9, port: 9000"), "want 10.128.0.0/9, or 10.255.255.255/32 for that address alone"},
		{egress("cidr: 192.0.2.3/31, port: 9000"), "want 192.0.2.2/31, or 192.0.2.3/32"},
		{egress("cidr: 10.0.0.1/4, port: 9000"), "want 0.0.0.0/4, or 10.0.0.1/32"},
		{egress("cidr: '2001:DB8::10/64', port: 9000"), `is "2001:DB8::10/64", which has address bits behind its mask: want 2001:db8::/64, or 2001:DB8::10/128 for that address alone`},
		{egress("cidr: '2001:db8:0:ffff::/49', port: 9000"), "want 2001:db8:0:8000::/49, or 2001:db8:0:ffff::/128"},
		{egress("cidr: '::1/64', port: 9000"), "want ::/64, or ::1/128"},
		{egress("cidr: 10.0.0.0/8, except: [10.1.2.3/16], port: 9000"), `worker.sandbox.kubernetes.storageEgress[0].except[0] is "10.1.2.3/16", which has address bits behind its mask: want 10.1.0.0/16, or 10.1.2.3/32`},
		{"worker: {sandbox: {kubernetes: {egressAllow: [{cidr: 1.2.3.4/0}]}}}", `worker.sandbox.kubernetes.egressAllow[0].cidr is "1.2.3.4/0", which has address bits behind its mask: want 0.0.0.0/0, or 1.2.3.4/32`},
		{"worker: {sandbox: {kubernetes: {dns: {cidrs: [10.96.0.10/12]}}}}", `worker.sandbox.kubernetes.dns.cidrs[0] is "10.96.0.10/12", which has address bits behind its mask: want 10.96.0.0/12, or 10.96.0.10/32`},
		{egress("cidr: 10.0.0.0/16, except: [10.1.0.0/24], port: 9000"), "worker.sandbox.kubernetes.storageEgress[0].except[0] is 10.1.0.0/24, which is no part of 10.0.0.0/16: want a smaller network within it"},
		{egress("cidr: 10.0.0.0/16, except: [10.0.0.0/16], port: 9000"), "is no part of 10.0.0.0/16"},
		{egress("cidr: 10.0.0.0/17, except: [10.0.128.0/24], port: 9000"), "is no part of 10.0.0.0/17"},
		{egress("cidr: 10.0.0.0/16, except: ['2001:db8::/32'], port: 9000"), "is no part of 10.0.0.0/16"},
		{egress("cidr: '2001:db8::/32', except: ['2001:db9::/48'], port: 9000"), "is no part of 2001:db8::/32"},
		{"worker: {sandbox: {kubernetes: {egressAllow: [{cidr: 10.0.0.0/8, except: [1.0.0.0/33]}]}}}", "worker.sandbox.kubernetes.egressAllow[0].except[0] is \"1.0.0.0/33\", which is no network"},
		{"worker: {sandbox: {kubernetes: {dns: {cidrs: [10.0.0.256/32]}}}}", "worker.sandbox.kubernetes.dns.cidrs[0] is \"10.0.0.256/32\", which is no network"},
		{"worker: {sandbox: {kubernetes: {dns: {labels: {'bad key!': x}}}}}", "'/worker/sandbox/kubernetes/dns/labels': additional properties 'bad key!' not allowed"},
		{"worker: {sandbox: {kubernetes: {dns: {labels: {app: 'bad value!'}}}}}", "'/worker/sandbox/kubernetes/dns/labels/app': 'bad value!' does not match pattern"},
		{egress("pods: {namespace: storage, labels: {'bad key!': x}}, port: 9000"), "'/worker/sandbox/kubernetes/storageEgress/0/pods/labels': additional properties 'bad key!' not allowed"},
		{egress("fqdn: a..example.com, port: 443"), "'/worker/sandbox/kubernetes/storageEgress/0/fqdn': 'a..example.com' does not match pattern"},
		{"worker: {podLabels: {app.kubernetes.io/name: other}}", "worker.podLabels has app.kubernetes.io/name, which tells workers from sandboxes and is the chart's to set: leave it out"},
		{"worker: {podLabels: {app.kubernetes.io/component: sandbox}}", "worker.podLabels has app.kubernetes.io/component"},
		{"worker: {podLabels: {io.batlehub/network: egress}}", "worker.podLabels has io.batlehub/network"},
		{"worker: {podLabels: {'bad key!': x}}", "'/worker/podLabels': additional properties 'bad key!' not allowed"},
		{"worker: {podAnnotations: {'bad key!': x}}", "'/worker/podAnnotations': additional properties 'bad key!' not allowed"},
		{"worker: {podAnnotations: {checksum/config: x}}", "worker.podAnnotations has checksum/config, which the chart sets: leave it out"},
		{"worker: {nodeSelector: {a/b/c: x}}", "'/worker/nodeSelector': additional properties 'a/b/c' not allowed"},
		{"worker: {nodeSelector: {disk: 'a b'}}", "'/worker/nodeSelector/disk': 'a b' does not match pattern"},
		{"worker: {sandbox: {kubernetes: {node_selector: {a/b/c: x}}}}", "'/worker/sandbox/kubernetes/node_selector': additional properties 'a/b/c' not allowed"},
		{"worker: {sandbox: {kubernetes: {annotations: {'bad key!': x}}}}", "'/worker/sandbox/kubernetes/annotations': additional properties 'bad key!' not allowed"},
		{"serviceAccount: {annotations: {'bad key!': x}}", "'/serviceAccount/annotations': additional properties 'bad key!' not allowed"},
		{"serviceAccount: {name: a..b}", "'/serviceAccount/name': 'a..b' does not match pattern"},
		{"fullnameOverride: a..b", "'/fullnameOverride': 'a..b' does not match pattern"},
		{"worker: {tmp: {size: 1Gi}}", "'/worker/tmp': additional properties 'size' not allowed"},
		{"worker: {tolerations: [{foo: bar}]}", "'/worker/tolerations/0': additional properties 'foo' not allowed"},
		{"worker: {tolerations: [{key: a, operator: Exists, value: b}]}", "worker.tolerations[0] has a value beside operator Exists"},
		{"worker: {tolerations: [{effect: NoSchedule}]}", "worker.tolerations[0] has no key"},
		{"worker: {sandbox: {kubernetes: {tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 3}]}}}", "worker.sandbox.kubernetes.tolerations[0] has tolerationSeconds without the effect NoExecute"},
		{"worker: {affinity: {nodeafinity: {}}}", "'/worker/affinity': additional properties 'nodeafinity' not allowed"},

		// What the worker would refuse, in its own words or nearly.
		{"worker: {sandbox: {kubernetes: {own_kernel: true}}}", "worker.sandbox.kubernetes.own_kernel is true without a runtime_class: set runtime_class to one of gVisor's, or leave own_kernel out"},
		{"worker: {sandbox: {kubernetes: {runtime_class: a..b}}}", "'/worker/sandbox/kubernetes/runtime_class': 'a..b' does not match pattern"},
		{"worker: {sandbox: {kubernetes: {tolerations: [{foo: bar}]}}}", "'/worker/sandbox/kubernetes/tolerations/0': additional properties 'foo' not allowed"},
		{"worker: {sandbox: {kubernetes: {tolerations: [{operator: exists}]}}}", "'/worker/sandbox/kubernetes/tolerations/0/operator': value must be one of 'Exists', 'Equal'"},
		{"worker: {sandbox: {kubernetes: {affinity: {nodeafinity: {}}}}}", "'/worker/sandbox/kubernetes/affinity': additional properties 'nodeafinity' not allowed"},
		{"worker: {sandbox: {kubernetes: {affinity: {podAffinity: {required: []}}}}}", "'/worker/sandbox/kubernetes/affinity/podAffinity': additional properties 'required' not allowed"},
		{"worker: {sandbox: {bundle_prefix: 'a b?#/'}}", "'/worker/sandbox/bundle_prefix': 'a b?#/' does not match pattern"},
		{"worker: {sandbox: {bundle_prefix: '../'}}", "'/worker/sandbox/bundle_prefix': 'not' failed"},
		{"worker: {sandbox: {bundle_prefix: 'artifact:x/'}}", "worker.sandbox.bundle_prefix is artifact:x/ and begins with artifact:, with which the registry's own keys begin"},
		{"worker: {sandbox: {runtime: bwrap, bwrap: {binary: ''}}}", "'/worker/sandbox/bwrap/binary'"},
		{"worker: {sandbox: {runtime: bwrap, bwrap: {binary: /usr/bin/podman}}}", "worker.sandbox.bwrap.binary is /usr/bin/podman, the program of something else"},
		{backend("endpoint: 'minio:9'"), "storage.backends.minio.endpoint is no server: want http://HOST[:PORT] or https://HOST[:PORT]"},
		{backend("endpoint: 'http://me:hunter2@minio:9'"), "storage.backends.minio.endpoint is no server"},
		{backend("endpoint: 'http://minio:9/path'"), "storage.backends.minio.endpoint is no server"},
		{backend("endpoint: 'http://minio:65536'"), "storage.backends.minio.endpoint has the port 65536: want 1 to 65535"},
		{backend("endpoint: 'http://localhost:9000'"), "storage.backends.minio.endpoint is a loopback address"},
		{backend("endpoint: 'http://[::1]:9000'"), "storage.backends.minio.endpoint is a loopback address"},
		{backend("endpoint: 'http://192.0.2.10:9000', path_style: false"), "storage.backends.minio.endpoint is an address, which no bucket's name can stand before: set path_style to true"},
		{backend("bucket: ''"), "'/storage/backends/minio/bucket': '' does not match pattern"},
		{"storage: {default: minio, backends: {other: {type: s3}}}", "storage.backends.other has no bucket: set it"},
		{backend("secret_key_env: ''"), "storage.backends.minio has one of access_key_env and secret_key_env alone"},
		{"storage: {default: minio, backends: {disk: {type: filesystem}}}", "storage.backends.disk has no path: set it to the backend's directory"},
		{"storage: {default: minio, backends: {'a b': {type: in_memory}}}", `storage.backends has the name "a b": want 1 to 63 of letters, digits`},
		{"scanners: {Own: {enabled: false}}", `scanners has the name "Own": want 1 to 63 of a-z 0-9`},
		{scanner("args: ['{foo}']"), "scanners.own.args[0] has {foo}, which is filled in with nothing: known are {artifact}, {work}, {name}, {version}, {ecosystem}"},
		{scanner("args: [a, '{ artifact }']"), "scanners.own.args[1] has { artifact }, which is filled in with nothing"},
		{scanner("command: bin/own"), "'/scanners/own/command': 'bin/own' does not match pattern"},
		{scanner("command: ''"), "'/scanners/own/command': '' does not match pattern"},
		{scanner("address_space_mb: 0"), "'/scanners/own/address_space_mb': 'not' failed"},
		{scanner("findings: line"), "'/scanners/own/findings': value must be one of"},
		{scanner("type: comand"), "'/scanners/own/type': value must be one of"},
		{scanner("timeout: soon"), "'/scanners/own/timeout': 'soon' does not match pattern"},
		{scanner("timeout: 0"), "'/scanners/own/timeout': minimum: got 0, want 1"},
		{scanner("layout: zip"), "'/scanners/own/layout': 'zip' does not match pattern"},
		{scanner("timeout: 90s, timeout_secs: 90"), "scanners.own has both timeout and timeout_secs: keep timeout"},
		{"scanners: {own: {enabled: true, image: " + owned + "}}", "scanners.own has no command: set it, or type to one of gitleaks, guarddog, postmortem, trivy"},

		// What would be taken, and be no sandbox, no worker, or not installed.
		{"serviceAccount: {automount: false}", "serviceAccount.automount is false, and the kubernetes runtime makes pods with the worker's token: leave it true"},
		{"serviceAccount: {name: default}", "serviceAccount.name is default, which every namespace has already"},
		{"worker: {sandbox: {kubernetes: {service_account: default}}}", "worker.sandbox.kubernetes.service_account is default, which every namespace has already: name one that the chart can make"},
		{egress("cidr: 0.0.0.0/0, port: 9000"), "worker.sandbox.kubernetes.storageEgress[0].cidr is 0.0.0.0/0, which is no bound for a run without network: want the storage's own addresses, /8 or longer"},
		{egress("cidr: 128.0.0.0/1, port: 9000"), "is 128.0.0.0/1, which is no bound"},
		{egress("cidr: '::/0', port: 9000"), "is ::/0, which is no bound for a run without network: want the storage's own addresses, /16 or longer"},
		{egress("fqdn: '*', port: 443"), "worker.sandbox.kubernetes.storageEgress[0].fqdn is *, which is every name: want the storage's own"},
		{"worker: {sandbox: {kubernetes: {dns: {cidrs: [0.0.0.0/0]}}}}", "worker.sandbox.kubernetes.dns.cidrs[0] is 0.0.0.0/0, which is no bound for a run without network: want the resolver's own address"},
		{"worker: {sandbox: {kubernetes: {namespace: kube-system}}}", "worker.sandbox.kubernetes.namespace is kube-system, which is not the sandboxes' own, and nothing else could run in it: name another"},
		{"worker: {sandbox: {kubernetes: {namespace: storage, storageEgress: [{pods: {namespace: storage, labels: {app: minio}}, port: 9000}]}}}", "worker.sandbox.kubernetes.storageEgress[0].pods.namespace is storage, the sandboxes' own, in which nothing else can run"},
		{"worker: {sandbox: {kubernetes: {namespace: resolver, dns: {namespace: resolver}}}}", "worker.sandbox.kubernetes.dns.namespace is resolver, the sandboxes' own"},
	} {
		_, err := chart.Render(dir, installed, valuesOf(t, "kubernetes", c.values))
		if err == nil {
			t.Errorf("%s is taken", c.values)
			continue
		}
		lines := blamed(err.Error())
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%s: the error is\n%v\nwant one line with\n%s", c.values, err, c.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the secret in it", c.values)
		}
	}
}

// Right values that are near to wrong ones reach the worker, which takes them too.
func TestARightValueIsTaken(t *testing.T) {
	for _, values := range []string{
		egress("cidr: 10.0.0.0/8, except: [10.255.255.255/32, 10.0.0.0/9], port: 9000"),
		egress("cidr: 255.255.255.255/32, port: 1"),
		egress("cidr: '2001:DB8::/32', except: ['2001:db8:ffff::/48', '2001:db8:0:0:0:0:0:1/128'], port: 9000"),
		egress("cidr: '::1:2:3:4:5:6:7/128', port: 9000"),
		egress("cidr: '1:2:3:4:5:6:7::/127', port: 9000"),
		egress("cidr: '1:2:3:4:5:6:7:8/128', port: 9000"),
		egress("fqdn: '*.s3.eu-west-1.example.com', port: 443"),
		"worker: {sandbox: {kubernetes: {egressAllow: [{cidr: 0.0.0.0/0, except: [10.0.0.0/8]}, {cidr: '::/0', except: ['fc00::/7', '::/128']}, {fqdn: '*'}]}}}",
		"worker: {sandbox: {kubernetes: {dns: {labels: {k8s-app.example.com/Name_1: ''}}, node_selector: {Disk: SSD_1.a}, annotations: {Example.com/a: any text!}}}}",
		"worker: {sandbox: {kubernetes: {tolerations: [{operator: Exists}, {key: a/b, value: c, effect: NoExecute, tolerationSeconds: 0}], runtime_class: gvisor.a-b, own_kernel: true}}}",
		"worker: {tolerations: [{operator: Exists, effect: NoSchedule}], tmp: {sizeLimit: 1Gi}, sandbox: {bundle_prefix: 'a?#é/'}}",
		backend("endpoint: 'https://minio.example.com'"), backend("endpoint: 'http://minio:65535/'"), backend("endpoint: 'http://[2001:db8::10]:9000'"), backend("endpoint: ''"),
		backend("endpoint: 'http://localhost.example.com', path_style: false"), backend("endpoint: 'http://127.example.com', path_style: false"),
		backend("access_key_env: '', secret_key_env: ''"), backend("bucket: A_b.c-d"),
		scanner("args: ['{artifact}', '{ foo }', '{}', '{{', '{1}', '{\"a\": 1}']"), scanner("command: /usr/bin/own"), scanner("address_space_mb: -1"),
		scanner("timeout: 1m30.5s, layout: file"), scanner("timeout: 90, layout: {kind: none}"),
		"scanners: {mine: {enabled: true, image: " + owned + ", type: gitleaks}}",
		"serviceAccount: {create: false, automount: true}",
	} {
		configOf(t, "kubernetes", values)
	}
	configOf(t, "bwrap", "serviceAccount: {automount: false}")
}

// What the chart lists is what the worker has.
func TestTheChartKnowsTheWorkersWords(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(dir, "templates", "_validate.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{config.Placeholders, worker.Predefined()} {
		if list := `list "` + strings.Join(words, `" "`) + `"`; !strings.Contains(string(b), list) {
			t.Errorf("the templates have no %s", list)
		}
	}
	for _, kind := range worker.Predefined() {
		configOf(t, "kubernetes", scanner("type: "+kind+", findings: "+kind))
	}
}

// A name is cut so that it still is one, and every object can have it.
func TestANameThatIsCutIsAName(t *testing.T) {
	for _, name := range []string{
		strings.Repeat("a", 49) + ".b", strings.Repeat("a", 49) + "-b", strings.Repeat("a.", 25) + "b", strings.Repeat("a", 60),
	} {
		for key := range documents(t, render(t, "kubernetes-full", "fullnameOverride: "+name)) {
			_, made, _ := strings.Cut(key, "/")
			if faults := validation.IsDNS1123Subdomain(made); len(faults) > 0 {
				t.Errorf("%s is cut to %s: %v", name, key, faults)
			}
		}
	}
}

// egress, backend and scanner are values with one destination of the storage's, one
// backend's keys and one scanner of an operator's own.
func egress(keys string) string {
	return "worker: {sandbox: {kubernetes: {storageEgress: [{" + keys + "}]}}}"
}

func backend(keys string) string { return "storage: {backends: {minio: {" + keys + "}}}" }

func scanner(keys string) string {
	if !strings.Contains(keys, "command:") {
		keys += ", command: own"
	}
	return "scanners: {own: {enabled: true, image: " + owned + ", " + keys + "}}"
}

var owned = "example.com/own@sha256:" + strings.Repeat("9", 64)

// blamed are the lines of an error that say what is wrong: all but the head that
// Helm puts above what a schema refuses.
func blamed(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if line = strings.TrimSpace(line); line != "" && line != "batlehub-sandbox:" && !strings.HasPrefix(line, "values don't meet the specifications of the schema") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The quota is replicas × pool × the cost of a run; the pool is what the worker's
// memory has room for, one without a limit, never less, or what is said.
func TestTheQuotaIsReplicasTimesPoolTimesCost(t *testing.T) {
	for _, c := range []struct {
		replicas                    int
		limit, said                 string
		memory, extracted, quotaRun int
		runs                        string
	}{
		{1, "", "0", 2048, 512, 2560, "1"},
		{4, "", "0", 2048, 512, 2560, "4"},
		{3, "", "0", 1000, 24, 1024, "3"},
		{2, "8Gi", "0", 2048, 512, 2560, "6"},
		{2, "2560Mi", "0", 2048, 512, 2560, "2"},
		{1, "5119Mi", "0", 2048, 512, 2560, "1"},
		{1, "5120Mi", "0", 2048, 512, 2560, "2"},
		{1, "1Gi", "0", 2048, 512, 2560, "1"},
		{1, "10G", "0", 2048, 512, 2560, "3"},
		{1, "8589934592", "0", 2048, 512, 2560, "3"},
		{2, "8Gi", "5", 2048, 512, 2560, "10"},
		{0, "8Gi", "0", 2048, 512, 2560, "0"},
	} {
		limits := ""
		if c.limit != "" {
			limits = "resources: {limits: {memory: " + c.limit + "}}, "
		}
		all := documents(t, render(t, "kubernetes", fmt.Sprintf(
			"worker: {replicas: %d, %ssandbox: {memory_limit_mb: %d, max_extracted_mb: %d, kubernetes: {quotaPool: %s}}}", c.replicas, limits, c.memory, c.extracted, c.said)))
		q := object[corev1.ResourceQuota](t, all, "ResourceQuota/batlehub-sandbox").Spec
		pods := q.Hard[corev1.ResourcePods]
		want := fmt.Sprintf("%dMi", int(pods.Value())*c.quotaRun)
		requests, memory := q.Hard[corev1.ResourceRequestsMemory], q.Hard[corev1.ResourceLimitsMemory]
		if pods.String() != c.runs || requests.Value() != int64(int(pods.Value())*c.quotaRun)<<20 || memory.Cmp(requests) != 0 {
			t.Errorf("%+v: %s pods, %s and %s of memory; want %s pods, %s", c, pods.String(), requests.String(), memory.String(), c.runs, want)
		}
		// The worker's pod has no deadline, and a sandbox's has: where both share a
		// namespace, the quota is the sandboxes'.
		if len(q.Scopes) != 1 || q.Scopes[0] != corev1.ResourceQuotaScopeTerminating {
			t.Errorf("%+v: the scopes are %v", c, q.Scopes)
		}
	}
}

// In a namespace of the sandboxes' own both quotas together have every pod: with a
// deadline it counts, and without one there is none. One that the worker shares has
// the worker's pods, which have no deadline.
func TestNoPodWithoutADeadlineHasRoomWhereTheNamespaceIsTheSandboxesOwn(t *testing.T) {
	all := documents(t, render(t, "kubernetes-full"))
	counted := object[corev1.ResourceQuota](t, all, "ResourceQuota/batlehub-sandbox").Spec
	barred := object[corev1.ResourceQuota](t, all, "ResourceQuota/batlehub-sandbox-no-deadline").Spec
	scopes := append(slices.Clone(counted.Scopes), barred.Scopes...)
	if want := []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating}; !slices.Equal(scopes, want) {
		t.Errorf("the scopes are %v, want %v, which are every pod", scopes, want)
	}
	if pods, limited := barred.Hard[corev1.ResourcePods]; !limited || !pods.IsZero() {
		t.Errorf("there is room for %s pods without a deadline (limited: %v)", pods.String(), limited)
	}
	for _, over := range []string{"", "worker: {sandbox: {kubernetes: {namespace: batlehub}}}"} {
		if documents(t, render(t, "kubernetes", over))["ResourceQuota/batlehub-sandbox-no-deadline"] != nil {
			t.Errorf("%q: the worker's own pods, which have no deadline, are refused", over)
		}
	}
}

// What once was advised for clusters on which bwrap can't work is not: neither a
// capability nor a worker without sandboxes.
func TestTheChartSendsNobodyToAWiderWorker(t *testing.T) {
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(file)
		for _, word := range []string{"SYS_ADMIN", "privileged: true", "UNSAFE", `runtime = "none"`, "runtime: none", "docker.sock", "hostPID", "hostNetwork", "hostPath"} {
			if strings.Contains(string(b), word) {
				t.Errorf("%s has %q", file, word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(values), "\n  # -- The worker's container. ")
	comment, _, _ := strings.Cut(after, "\n  securityContext:")
	if !found || !strings.Contains(comment, "set `worker.sandbox.runtime` to `kubernetes`") {
		t.Errorf("the comment of worker.securityContext does not point to the runtime: %q", comment)
	}
}
