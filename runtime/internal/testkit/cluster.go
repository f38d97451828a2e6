package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// KubeconfigEnv names the kubeconfig of a real cluster's administrator, or says
// why there is none.
const KubeconfigEnv = "BATLEHUB_TEST_KUBECONFIG"

// Kubeconfig skips a test without a cluster, and returns the file that
// scripts/cluster.sh env names.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	switch value := os.Getenv(KubeconfigEnv); {
	case strings.HasPrefix(value, "not run:"):
		t.Skip(value)
	case value != "":
		return value
	}
	t.Skip(`not run: no cluster; eval "$(scripts/cluster.sh env)" after scripts/cluster.sh up`)
	return ""
}

// ClusterImage makes an image of nothing but files, by their absolute path,
// brings it to the cluster's nodes and returns its name, by digest. It is
// removed with the test.
func ClusterImage(t testing.TB, name string, files map[string]ImageFile) string {
	t.Helper()
	dir := Dir(t)
	for path, f := range files {
		content := []byte(f.Content)
		if f.From != "" {
			var err error
			if content, err = os.ReadFile(f.From); err != nil {
				t.Fatal(err)
			}
		}
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, content, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sh", "../../scripts/cluster.sh", "image", dir, name).Output()
	if err != nil {
		t.Fatalf("making the image %s: %v", name, err)
	}
	image := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("sh", "../../scripts/cluster.sh", "unload", image).CombinedOutput(); err != nil {
			t.Errorf("removing the image %s: %v: %s", image, err, out)
		}
	})
	return image
}

// AgentFiles are the agent and the tool, with changes: more files, or nil to
// leave one out.
func AgentFiles(t testing.TB, changes map[string]*ImageFile) map[string]ImageFile {
	t.Helper()
	files := map[string]ImageFile{
		"/usr/local/bin/batlehub-sandbox": {From: Agent(t), Mode: 0o755},
		"/usr/bin/tool":                   {From: Tool(t), Mode: 0o755},
	}
	for path, f := range changes {
		if f == nil {
			delete(files, path)
		} else {
			files[path] = *f
		}
	}
	return files
}
