package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

// workerVariable names the file that makes this test's program a worker instead.
const workerVariable = "BATLEHUB_TEST_WORKER"

func TestMain(m *testing.M) {
	file := os.Getenv(workerVariable)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := workAs(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// workerFile is what a worker process is told.
type workerFile struct {
	Kubeconfig, Namespace, Image, Worker string
	// Storage is the endpoint of one of s3server's.
	Storage string
	Canary  netip.AddrPort
	// Linger is how long its one run takes; empty for a worker that has none.
	Linger string
}

// workAs is a worker's whole life: it sweeps as it starts, says what of, and
// makes its run.
func workAs(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var w workerFile
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	api, _, err := kubernetes.Connect(w.Kubeconfig)
	if err != nil {
		return err
	}
	leaf, err := s3.New(bucketAt(w.Storage))
	if err != nil {
		return err
	}
	hop := bundle.NewHop(bundle.HopConfig{Runtime: kubernetes.Name, Leaf: leaf, Prefix: bundle.DefaultPrefix})
	r, err := kubernetes.New(kubernetes.Config{
		API: api, Namespace: w.Namespace, Hop: hop, Image: w.Image, Worker: w.Worker, Canaries: []netip.AddrPort{w.Canary},
	})
	if err != nil {
		return err
	}
	return errors.Join(w.work(r), r.Close(), hop.Close(), leaf.Close())
}

// bucketAt is the bucket of one of s3server's servers.
func bucketAt(endpoint string) s3.Config {
	return s3.Config{
		Endpoint: endpoint, Region: s3server.Region, Bucket: s3server.Bucket, PathStyle: true,
		AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey,
	}
}

func (w workerFile) work(r *kubernetes.Runtime) error {
	ctx := context.Background()
	swept, err := r.Sweep(ctx, sandbox.SweepPolicy{Worker: w.Worker, OlderThan: 15 * time.Minute})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(swept.Removed); err != nil || w.Linger == "" {
		return err
	}
	spec, err := lab.Spec("killed", "", nil, "inmate", "linger", w.Linger, "/work")
	if err != nil {
		return err
	}
	spec.Label.Worker = w.Worker
	out, err := r.Run(ctx, spec)
	err = errors.Join(err, r.CloseJob(ctx, w.Worker, spec.Label.Job))
	if err == nil && (out.Status == nil || *out.Status != 0) {
		err = fmt.Errorf("the scanner did not end well: %+v", out.Result)
	}
	return err
}

// process is a worker process.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func (s *scene) worker(t *testing.T, id, linger string) *process {
	t.Helper()
	b, err := json.Marshal(workerFile{
		Kubeconfig: os.Getenv("BATLEHUB_TEST_KUBECONFIG"), Namespace: s.Namespace, Image: s.image, Worker: id,
		Storage: s.server.Endpoint(), Canary: s.canary.address, Linger: linger,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "worker.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+file)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// swept is what a worker that came to its own end said it had removed.
func (p *process) swept(t *testing.T) []sandbox.Orphan {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("a worker: %v: %s", err, p.stderr.String())
	}
	var removed []sandbox.Orphan
	if err := json.Unmarshal(p.stdout.Bytes(), &removed); err != nil {
		t.Fatalf("a worker said %q: %v", p.stdout.String(), err)
	}
	return removed
}

// podsOf are the names of a worker's pods that are in a phase.
func (s *scene) podsOf(t *testing.T, id, phase string) []string {
	t.Helper()
	out, err := s.Kubectl(t.Context(), "", "-n", s.Namespace, "get", "pods", "-l", kubernetes.LabelWorker+"="+id,
		"--field-selector", "status.phase="+phase, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

// keysOf are a worker's keys.
func (s *scene) keysOf(t *testing.T, leaf *s3.Backend, id string) []string {
	t.Helper()
	var keys []string
	for o, err := range leaf.List(t.Context(), bundle.DefaultPrefix+id+"/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// running waits until the pod of a worker runs, and returns its name.
func (s *scene) running(t *testing.T, id string, p *process) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		if pods := s.podsOf(t, id, "Running"); len(pods) == 1 {
			return pods[0]
		}
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	t.Fatalf("no pod of %s runs; it said %q and %q", id, p.stdout.String(), p.stderr.String())
	return ""
}

// bystander is a pod by the name of a run's that carries none of its labels.
const bystander = `
apiVersion: v1
kind: Pod
metadata: {name: batlehub-sbx-inmate-stand, labels: {io.batlehub/job: killed}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: sandbox, image: %q, command: [inmate, linger, 10m, /work], env: [{name: PATH, value: "/usr/local/bin:/usr/bin"}], resources: {limits: {memory: 64Mi}}}]
`

// A worker is killed while its pod runs. The next process with its id removes
// the pod and the keys at its start; what is another's or carries no label stays.
func TestAWorkerThatIsKilledIsSweptByItsNextStartAlone(t *testing.T) {
	s := newScene(t)
	if err := errors.Join(s.Guard(t.Context()), s.Apply(t.Context(), fmt.Sprintf(bystander, s.image))); err != nil {
		t.Fatal(err)
	}
	leaf := s.server.Backend(t)
	if err := leaf.Put(t.Context(), "killed-beside/job/inmate/1/manifest.json", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	killed, neighbour := s.worker(t, "killed", "10m"), s.worker(t, "neighbour", "20s")
	pod, other := s.running(t, "killed", killed), s.running(t, "neighbour", neighbour)
	if err := killed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	left := s.keysOf(t, leaf, "killed")
	if still := s.podsOf(t, "killed", "Running"); !slices.Equal(still, []string{pod}) || len(left) == 0 {
		t.Fatalf("the killed worker left the pods %q and the keys %q: this proves nothing", still, left)
	}
	began := time.Now()
	removed := s.worker(t, "killed", "").swept(t)
	t.Logf("the next start took %s and removed %v; the killed one had left %q", time.Since(began).Round(time.Millisecond), removed, left)
	if n := len(removed); n != 2 || removed[0].Kind != "pod" || removed[0].Name != pod || removed[1].Kind != "bundle" {
		t.Errorf("it says to have removed %+v, want the pod %s and its bundle", removed, pod)
	}
	for _, phase := range []string{"Pending", "Running", "Succeeded", "Failed"} {
		if pods := s.podsOf(t, "killed", phase); len(pods) > 0 {
			t.Errorf("%s are left: %q", phase, pods)
		}
	}
	if keys := s.keysOf(t, leaf, "killed"); len(keys) > 0 {
		t.Errorf("keys are left: %q", keys)
	}
	s.untouched(t, leaf, other)
	if removed := neighbour.swept(t); len(removed) > 0 {
		t.Errorf("the neighbour's start removed %+v", removed)
	}
}

// untouched looks that the neighbour's run and what is nobody's are still there.
func (s *scene) untouched(t *testing.T, leaf *s3.Backend, other string) {
	t.Helper()
	if still := s.podsOf(t, "neighbour", "Running"); !slices.Equal(still, []string{other}) {
		t.Errorf("the neighbour's running pods are %q, want %s", still, other)
	}
	if keys := s.keysOf(t, leaf, "neighbour"); len(keys) == 0 {
		t.Error("the neighbour's keys are gone")
	}
	phase, err := s.Kubectl(t.Context(), "", "-n", s.Namespace, "get", "pod", "batlehub-sbx-inmate-stand", "-o", "jsonpath={.status.phase}{.metadata.deletionTimestamp}")
	if err != nil || phase != "Running" {
		t.Errorf("the pod without labels is %q, %v", phase, err)
	}
	if _, err := leaf.Head(t.Context(), "killed-beside/job/inmate/1/manifest.json"); err != nil {
		t.Errorf("a key beside the prefix: %v", err)
	}
}
