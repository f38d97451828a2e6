package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
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
