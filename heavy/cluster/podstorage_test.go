package cluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/cluster"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// podStorage is a namespace whose pod "storage" is an S3 server at its port 9000
// and another server at 9001. "stranger" beside it, and "namesake" in the second
// namespace with the storage's own labels, listen at 9000 as well.
type podStorage struct {
	*cluster.Cluster
	storage, other, stranger, namesake netip.AddrPort
}

const serverPod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[2]s}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 65532, fsGroup: 65532}
  containers:
    - {name: first, image: %[3]q, command: [/versitygw, --port, ":9000", posix, /first], env: &env [{name: ROOT_ACCESS_KEY, value: %[4]s}, {name: ROOT_SECRET_KEY, value: %[5]s}], volumeMounts: &mounts [{name: first, mountPath: /first}, {name: second, mountPath: /second}]}
    - {name: second, image: %[3]q, command: [/versitygw, --port, ":9001", posix, /second], env: *env, volumeMounts: *mounts}
  volumes: [{name: first, emptyDir: {}}, {name: second, emptyDir: {}}]
`

const storageService = `
apiVersion: v1
kind: Service
metadata: {name: storage}
spec:
  selector: {app: storage}
  ports: [{port: 9000}]
`

// newPodStorage starts the servers, and makes the bucket of the first.
func newPodStorage(t *testing.T) *podStorage {
	t.Helper()
	s := &podStorage{Cluster: openNamespace(t, "store", netip.AddrPort{})}
	elsewhere := openNamespace(t, "store", netip.AddrPort{})
	server := s.serverImage(t)
	pod := func(c *cluster.Cluster, name, app string) netip.Addr {
		return startPod(t, c, name, fmt.Sprintf(serverPod, name, app, server, s3server.AccessKey, s3server.SecretKey))
	}
	address := pod(s.Cluster, "storage", "storage")
	s.storage, s.other = netip.AddrPortFrom(address, 9000), netip.AddrPortFrom(address, 9001)
	s.stranger = netip.AddrPortFrom(pod(s.Cluster, "stranger", "stranger"), 9000)
	s.namesake = netip.AddrPortFrom(pod(elsewhere, "namesake", "storage"), 9000)
	if err := s.Apply(t.Context(), storageService); err != nil {
		t.Fatal(err)
	}
	for _, listener := range []netip.AddrPort{s.storage, s.other, s.stranger, s.namesake} {
		accepts(t, listener)
	}
	client, err := minio.New(s.storage.String(), &minio.Options{
		Creds: credentials.NewStaticV4(s3server.AccessKey, s3server.SecretKey, ""), Region: s3server.Region, BucketLookup: minio.BucketLookupPath,
	})
	if err == nil {
		err = client.MakeBucket(t.Context(), s3server.Bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openNamespace makes a namespace without policies, whose pods are to reach a
// storage outside the cluster, if one is named.
func openNamespace(t *testing.T, kind string, storage netip.AddrPort) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Open(t.Context(), root, kind+"-"+strings.ToLower(rand.Text()[:8]), storage)
	if errors.Is(err, cluster.ErrNotRun) {
		t.Skip(err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// serverImage is the image of one S3 server.
func (s *podStorage) serverImage(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	binary, err := os.ReadFile(s3server.Binary(t, s3server.VersityGW))
	for _, dir := range []string{"first", "second", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(tree, dir), 0o755))
	}
	if err = errors.Join(err, os.WriteFile(filepath.Join(tree, "versitygw"), binary, 0o755)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return image(t, s.Cluster, tree, "versitygw")
}

// image brings a directory to the nodes as an image, for as long as the test is.
func image(t *testing.T, c *cluster.Cluster, tree, name string) string {
	t.Helper()
	reference, err := c.Image(t.Context(), tree, "heavy.local/"+name+"-"+strings.ToLower(rand.Text()[:8]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Unload(context.Background(), reference); err != nil {
			t.Error(err)
		}
	})
	return reference
}

// startPod makes a pod, waits until it is ready and returns its address.
func startPod(t *testing.T, c *cluster.Cluster, name, text string) netip.Addr {
	t.Helper()
	err := c.Apply(t.Context(), text)
	if err == nil {
		_, err = c.Kubectl(t.Context(), "", "-n", c.Namespace, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=60s")
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Kubectl(t.Context(), "", "-n", c.Namespace, "get", "pod", name, "-o", "jsonpath={.status.podIP}")
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddr(out)
}

// accepts waits until somebody listens: what refuses everybody proves nothing of
// a policy.
func accepts(t *testing.T, address netip.AddrPort) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", address.String(), time.Second); err == nil {
			_ = conn.Close()
			return
		}
	}
	t.Fatalf("nobody listens at %s: %v", address, err)
}

const podsEgress = `
worker:
  sandbox:
    runtime: kubernetes
    kubernetes:
      namespace: %s
      storageEgress: [{pods: {namespace: %s, labels: {app: storage}}, port: 9000}]
storage: {backends: {minio: {type: s3, endpoint: "http://storage.%[2]s.svc:9000", bucket: bundles, access_key_env: KEY, secret_key_env: SECRET}}}
`

// chartPolicies are the network policies that the chart renders.
func chartPolicies(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := chart.Values(filepath.Join(root, "heavy/internal/chart/testdata/release.yaml"), file)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := chart.Render(filepath.Join(root, "deploy/chart"), chart.Release{Name: "batlehub-sandbox", Namespace: "batlehub"}, values)
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		if strings.Contains(document, "\nkind: NetworkPolicy\n") {
			policies = append(policies, document)
		}
	}
	if len(policies) != 3 {
		t.Fatalf("the chart renders %d network policies, want 3:\n%s", len(policies), rendered)
	}
	return strings.Join(policies, "\n---\n")
}

// A storage that is a pod is named by its labels. A run reaches that pod's port
// and nothing else: no other port of it, no pod beside it, and none that has its
// labels in another namespace.
func TestAStorageThatIsAPodIsReachedAndNothingElse(t *testing.T) {
	s := newPodStorage(t)
	c := openNamespace(t, "boxes", netip.AddrPort{})
	policies := chartPolicies(t, fmt.Sprintf(podsEgress, c.Namespace, s.Namespace))
	if err := c.Apply(t.Context(), policies); err != nil {
		t.Fatal(err)
	}
	r := s.over(t, c)
	for address, want := range map[netip.AddrPort]bool{s.storage: true, s.other: false, s.stranger: false, s.namesake: false} {
		said := dialled(t, r, address, false)
		t.Logf("%s: %s", address, said)
		if (said == "connected") != want {
			t.Errorf("a run that dials %s says %q, want a connection: %t", address, said, want)
		}
	}
	// The same from a pod that no policy holds.
	if _, err := c.Kubectl(t.Context(), "", "-n", c.Namespace, "delete", "networkpolicy", "--all"); err != nil {
		t.Fatal(err)
	}
	for _, address := range []netip.AddrPort{s.other, s.stranger, s.namesake} {
		if said := dialled(t, r, address, true); said != "connected" {
			t.Errorf("without policies a run that dials %s says %q: the refusal above proves nothing", address, said)
		}
	}
}

const podsInstalled = `
worker: {sandbox: {kubernetes: {storageEgress: [{pods: {namespace: %[1]s, labels: {app: storage}}, port: 9000}]}}}
storage: {backends: {minio: {endpoint: "http://storage.%[1]s.svc:9000"}}}
`

// By its service's name it is the storage of an installed chart as well, whose
// pods reach it before their own policy is known.
func TestTheInstalledChartProvesItsSandboxesOverAStorageThatIsAPod(t *testing.T) {
	s := newPodStorage(t)
	i := newInstall(t, fmt.Sprintf(podsInstalled, s.Namespace))
	log := i.says(t, "this build has no job queue yet")
	t.Log(log)
	if !strings.Contains(log, "sandbox: probe passed") {
		t.Errorf("no probe passed:\n%s", log)
	}
}

// over is a runtime on this host whose storage has the one name that both this
// host and pods know, its pod's address.
func (s *podStorage) over(t *testing.T, boxes *cluster.Cluster) sandbox.Runtime {
	t.Helper()
	l, err := lab.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(l.Rooms, lab.Scanner)
	if err := os.MkdirAll(filepath.Join(tree, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	leaf, err := s3.New(bucketAt("http://" + s.storage.String()))
	if err != nil {
		t.Fatal(err)
	}
	hop := bundle.NewHop(bundle.HopConfig{Runtime: kubernetes.Name, Leaf: leaf, Prefix: bundle.DefaultPrefix})
	c, err := boxes.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Image, c.Hop, c.Worker = image(t, boxes, tree, lab.Scanner), hop, "heavy"
	// A pod that no policy holds lets everybody in, from the first moment on.
	c.Canaries = []netip.AddrPort{s.stranger}
	r, err := kubernetes.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), hop.Close(), leaf.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// dialled is what a run says of an address.
func dialled(t *testing.T, r sandbox.Runtime, address netip.AddrPort, network bool) string {
	t.Helper()
	spec, err := lab.Spec("pod-storage", "", nil, "inmate", "dial", address.String())
	if err != nil {
		t.Fatal(err)
	}
	spec.Network = network
	out, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out.Stdout))
}
