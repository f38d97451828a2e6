package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

type composeFile struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		ExtraHosts  []string `yaml:"extra_hosts"`
		ReadOnly    bool     `yaml:"read_only"`
		Privileged  bool
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		DependsOn   []string `yaml:"depends_on"`
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy/compose/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The example is one that the worker takes: it loads without a warning, and
// names the storage as the Compose file publishes it.
func TestTheComposeExamplesConfigurationLoads(t *testing.T) {
	c := readCompose(t)
	worker := c.Services["worker"]
	for name := range worker.Environment {
		t.Setenv(name, "twenty-characters-or-so")
	}
	conf, err := config.Load(filepath.Join(root, "deploy/compose/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(conf.Warnings) != 0 {
		t.Errorf("warnings: %v", conf.Warnings)
	}
	sandbox := conf.Worker.Sandbox
	if sandbox.Runtime != "oci" || sandbox.OCI.Engine != "docker" || sandbox.OCI.Transport != "storage" {
		t.Errorf("runtime %s, engine %s, transport %s", sandbox.Runtime, sandbox.OCI.Engine, sandbox.OCI.Transport)
	}
	for name, s := range conf.Scanners {
		if !strings.Contains(s.Image, "sha256:") {
			t.Errorf("scanner %s has the image %q, want one by digest", name, s.Image)
		}
	}
	endpoint, err := url.Parse(conf.Storage.Backends[sandbox.BundleBackend].Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	host := regexp.MustCompile(`^` + endpoint.Hostname() + `:\$\{STORAGE_ADDRESS\}$`)
	if len(worker.ExtraHosts) != 1 || !host.MatchString(worker.ExtraHosts[0]) {
		t.Errorf("the worker's hosts are %q, want the endpoint's %s", worker.ExtraHosts, endpoint.Hostname())
	}
	if p := c.Services["minio"].Ports; len(p) != 1 || !strings.HasSuffix(p[0], ":"+endpoint.Port()+":9000") {
		t.Errorf("MinIO's ports are %q, the endpoint's is %s", p, endpoint.Port())
	}
}

// Images are named by the operator, the worker's container has no more than it
// needs, and every variable of the file is in the example of its values.
func TestTheComposeFileNamesNoImageAndGivesTheWorkerNoRights(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		if !strings.HasPrefix(s.Image, "${") {
			t.Errorf("service %s has the image %q, want a variable: a digest is the operator's", name, s.Image)
		}
		for _, d := range s.DependsOn {
			if _, there := c.Services[d]; !there {
				t.Errorf("service %s waits for %s, which there is not", name, d)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, there := c.Volumes[volume]; !there && !strings.ContainsAny(volume, "./") {
				t.Errorf("service %s has the volume %s, which there is not", name, volume)
			}
		}
	}
	w := c.Services["worker"]
	if w.Privileged || !w.ReadOnly || strings.Join(w.CapDrop, " ") != "ALL" || strings.Join(w.SecurityOpt, " ") != "no-new-privileges:true" {
		t.Errorf("the worker is privileged %v, read-only %v, drops %q, options %q", w.Privileged, w.ReadOnly, w.CapDrop, w.SecurityOpt)
	}
	file, err := os.ReadFile(filepath.Join(root, "deploy/compose/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "deploy/compose/worker.env.example"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)`).FindAllSubmatch(file, -1) {
		if !strings.Contains("\n"+string(example), "\n"+string(m[1])+"=") {
			t.Errorf("worker.env.example has no %s", m[1])
		}
	}
}
