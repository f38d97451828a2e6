package cluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/cluster"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
)

// install is the chart installed: a worker in one namespace, sandboxes in another
// that the chart has made.
type install struct {
	*cluster.Cluster
	sandboxes string
	// scanner is the image of one, and storage what its runs reach.
	scanner string
	storage netip.AddrPort
}

// newInstall installs the chart with a worker and a scanner built from here, and
// with more values.
func newInstall(t *testing.T, more string) *install {
	t.Helper()
	host := routable(t)
	server := s3server.Start(t, s3server.MinIO, s3server.Options{Host: host.String()})
	name := "chart-" + strings.ToLower(rand.Text()[:8])
	c, err := cluster.Open(t.Context(), root, name, netip.MustParseAddrPort(server.Address()))
	if errors.Is(err, cluster.ErrNotRun) {
		t.Skip(err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	i := &install{Cluster: c, sandboxes: name + "-boxes", storage: netip.MustParseAddrPort(server.Address())}
	t.Cleanup(func() {
		_, err := i.Kubectl(context.Background(), "", "delete", "namespace", i.sandboxes, "--ignore-not-found", "--wait=false")
		if err := errors.Join(err, i.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := i.Apply(t.Context(), fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: storage-keys}\nstringData: {S3_ACCESS_KEY: %s, S3_SECRET_KEY: %s}\n", s3server.AccessKey, s3server.SecretKey)); err != nil {
		t.Fatal(err)
	}
	var worker string
	worker, i.scanner = i.images(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, valuesFormat, worker, i.sandboxes, i.storage.Addr(), i.storage.Port(), server.Address(), s3server.Bucket, i.scanner), 0o600); err != nil {
		t.Fatal(err)
	}
	over := filepath.Join(t.TempDir(), "more.yaml")
	if err := os.WriteFile(over, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := chart.Values(file, over)
	if err != nil {
		t.Fatal(err)
	}
	text, err := chart.Render(filepath.Join(root, "deploy/chart"), chart.Release{Name: "batlehub-sandbox", Namespace: name}, values)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Kubectl(t.Context(), text, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	return i
}

const valuesFormat = `
worker:
  image: %s
  envFrom: [{secretRef: {name: storage-keys}}]
  sandbox:
    runtime: kubernetes
    memory_limit_mb: 512
    max_extracted_mb: 64
    kubernetes:
      namespace: %s
      createNamespace: true
      storageEgress: [{cidr: %s/32, port: %d}]
storage:
  backends:
    minio: {type: s3, endpoint: "http://%s", bucket: %s, path_style: true, access_key_env: S3_ACCESS_KEY, secret_key_env: S3_SECRET_KEY}
scanners:
  gitleaks: {enabled: false}
  guarddog: {enabled: false}
  postmortem: {enabled: false}
  inmate: {enabled: true, image: %s, type: command, command: inmate, findings: lines}
`

// images brings the worker's and the scanner's to the nodes.
func (i *install) images(t *testing.T) (worker, scanner string) {
	t.Helper()
	dir := t.TempDir()
	l, err := lab.New(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	room, tree := filepath.Join(l.Rooms, lab.Scanner), filepath.Join(dir, "worker")
	for _, d := range []string{filepath.Join(room, "work"), filepath.Join(tree, "usr/local/bin"), filepath.Join(tree, "tmp"), filepath.Join(tree, "etc")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := lab.Build(t.Context(), filepath.Join(tree, "usr/local/bin/sandboxctl"), "github.com/batleforc/batlehub-sandbox/worker/cmd/sandboxctl"); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, 2)
	for _, directory := range []string{tree, room} {
		name, err := i.Image(t.Context(), directory, "heavy.local/"+filepath.Base(directory)+"-"+strings.ToLower(rand.Text()[:8]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := i.Unload(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
		names = append(names, name)
	}
	return names[0], names[1]
}

// says waits until the worker has said something, whichever of its starts it was in.
func (i *install) says(t *testing.T, want string) string {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	seen := "nothing"
	for {
		for _, previous := range []string{"--previous=false", "--previous=true"} {
			log, err := i.Kubectl(t.Context(), "", "-n", i.Namespace, "logs", "-l", "app.kubernetes.io/component=worker", "--tail=-1", previous)
			if err == nil && strings.Contains(log, want) {
				return log
			}
			if err == nil && log != "" {
				seen = log
			}
		}
		select {
		case <-deadline:
			events, err := i.Kubectl(context.WithoutCancel(t.Context()), "", "get", "events", "-A", "--field-selector", "involvedObject.namespace="+i.Namespace)
			t.Fatalf("the worker never said %q but\n%s\n%s %v", want, seen, events, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// The worker that the chart installs proves a sandbox with the rights, the account,
// the policies, the quota and the namespace that the chart made; and without its
// policies it refuses to start.
func TestTheInstalledChartProvesItsSandboxes(t *testing.T) {
	i := newInstall(t, "")
	log := i.says(t, "this build has no job queue yet")
	t.Log(log)
	for _, want := range []string{`probing runtime "kubernetes" (namespace ` + i.sandboxes, "sandbox: probe passed"} {
		if !strings.Contains(log, want) {
			t.Errorf("the worker never said %q:\n%s", want, log)
		}
	}
	level, err := i.Kubectl(t.Context(), "", "get", "namespace", i.sandboxes, "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`)
	if err != nil || level != "restricted" {
		t.Errorf("the sandboxes' namespace is held to %q: %v", level, err)
	}
	i.scale(t, 0)
	if _, err := i.Kubectl(t.Context(), "", "-n", i.sandboxes, "delete", "networkpolicy", "--all"); err != nil {
		t.Fatal(err)
	}
	i.scale(t, 1)
	log = i.says(t, "refusing to start")
	t.Log(log)
	if !strings.Contains(log, "no-network — open") {
		t.Errorf("the refusal names no network:\n%s", log)
	}
	i.scale(t, 0)
	if left, err := i.Kubectl(t.Context(), "", "-n", i.sandboxes, "get", "pods", "-o", "name"); err != nil || left != "" {
		t.Errorf("a worker that was told to end has left %q: %v", left, err)
	}
}

// The same with a kernel of its own for each scan.
func TestTheInstalledChartProvesItsSandboxesUnderGVisor(t *testing.T) {
	i := newInstall(t, "worker: {sandbox: {kubernetes: {runtime_class: runsc, own_kernel: true}}}")
	if _, err := i.Kubectl(t.Context(), "", "get", "runtimeclass", "runsc"); err != nil {
		t.Skip("not run: the cluster has no runtime class runsc")
	}
	log := i.says(t, "this build has no job queue yet")
	t.Log(log)
	for _, want := range []string{"runtime class runsc", "sandbox: probe passed"} {
		if !strings.Contains(log, want) {
			t.Errorf("the worker never said %q:\n%s", want, log)
		}
	}
}

// scale sets the number of workers, and waits for the end of those that go.
func (i *install) scale(t *testing.T, replicas int) {
	t.Helper()
	if _, err := i.Kubectl(t.Context(), "", "-n", i.Namespace, "scale", "deployment/batlehub-sandbox", fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		t.Fatal(err)
	}
	if replicas > 0 {
		return
	}
	if _, err := i.Kubectl(t.Context(), "", "-n", i.Namespace, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=worker", "--timeout=60s"); err != nil {
		t.Fatal(err)
	}
}
