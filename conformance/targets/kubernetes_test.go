package targets_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

func TestAClusterKeepsWhatTheSuiteLooksAtFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: asked to be short")
	}
	kubeconfig := os.Getenv("BATLEHUB_TEST_KUBECONFIG")
	if kubeconfig == "" || strings.HasPrefix(kubeconfig, "not run: ") {
		t.Skip(`not run: no cluster; eval "$(scripts/cluster.sh env)" after scripts/cluster.sh up`)
	}
	script := func(name string) string {
		path, err := filepath.Abs(filepath.Join("../../scripts", name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	minio, err := exec.CommandContext(t.Context(), "sh", script("tool.sh"), "minio").Output()
	if err != nil {
		t.Skip("not run: there is no MinIO here: " + err.Error())
	}
	b := builder(t)
	o := options(t, b, "C01", "C15", "W70", "W84", "O06")
	o.Bounds = conformance.DefaultBounds()
	o.Bounds.Start *= 6
	o.Bounds.Settle *= 6
	target, closing, err := targets.Kubernetes(t.Context(), b, targets.KubernetesOptions{
		Kubeconfig: kubeconfig, Load: script("cluster.sh"), S3: "minio", S3Binary: strings.TrimSpace(string(minio)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closing(); err != nil {
			t.Error(err)
		}
	})
	if r := conformance.Run(t, *target, o); r.Counts[report.Pass] != 5 {
		t.Errorf("the counts are %v", r.Counts)
	}
}

func TestEveryClassNamesItsMutantsAndTheirKillers(t *testing.T) {
	for _, class := range targets.KubernetesMutants(builder(t)) {
		namesItsMutants(t, class)
	}
}

func TestAClusterThatIsNotThereIsNotRun(t *testing.T) {
	for kubeconfig, want := range map[string]string{"": "scripts/cluster.sh up", "not run: the host lacks runc": "the host lacks runc"} {
		_, _, err := targets.Kubernetes(t.Context(), builder(t), targets.KubernetesOptions{Kubeconfig: kubeconfig})
		if !errors.Is(err, targets.ErrNotRun) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", kubeconfig, err)
		}
	}
}

// What is put into the rendered text in a session's name has to be there.
func TestTheRenderedNamespaceHasWhatASessionReplaces(t *testing.T) {
	for text, times := range map[string]int{"192.0.2.10/32": 2, "port: 9000": 2, "namespace: batlehub-sandbox": 1, "name: batlehub-worker": 2} {
		if n := strings.Count(targets.Rendered(), text); n != times {
			t.Errorf("%q is there %d times, want %d", text, n, times)
		}
	}
}
