package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Load(write(t, "config.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAConfigurationThatSaysNothingHasTheSpecifiedDefaults(t *testing.T) {
	want := Sandbox{
		Runtime: "bwrap", MemoryLimitMB: 2048, CPUSeconds: 300, MaxArtifactMB: 2048, MaxExtractedMB: 512, MaxEntries: 50_000,
		StartTimeoutSecs: 120, ProbeIntervalSecs: 600, BundlePrefix: "sandbox/", BundleTTLSecs: 60,
		Bwrap: Bwrap{Binary: "bwrap", Rooms: "/opt/sandbox"},
		OCI: OCI{
			Engine: "podman", Binary: "podman", Transport: "mount", ExtraArgs: []string{}, EgressAllow: []string{}, Pull: "if-absent",
			StoragePool: netip.MustParsePrefix("10.213.0.0/16"), OrphanAfterSecs: 900,
		},
		Kubernetes: Kubernetes{
			ServiceAccount: "batlehub-sandbox", NodeSelector: map[string]string{}, ImagePullSecrets: []string{},
			Annotations: map[string]string{}, Affinity: map[string]any{}, OrphanAfterSecs: 900,
		},
		Crun: Crun{
			Program: "crun", StateDir: "/var/lib/batlehub-sandbox/crun", Rooms: "/opt/sandbox", Digests: map[string]string{},
			UsernsBase: 100_000, User: "65532:65532", CgroupParent: "batlehub-sandbox", CPUMilli: 1000, OrphanAfterSecs: 900,
		},
	}
	for name, text := range map[string]string{
		"an empty file":         "",
		"an empty table":        "[worker.sandbox]\n",
		"the registry's tables": "config_version = 1\n[server]\nport = 8080\n[storage]\ntype = \"filesystem\"\n[[registries]]\nname = \"npm\"\n",
	} {
		if got := load(t, text); !reflect.DeepEqual(got.Worker.Sandbox, want) || len(got.Warnings) != 0 {
			t.Errorf("%s: %+v, warnings %v\nwant %+v", name, got.Worker.Sandbox, got.Warnings, want)
		}
	}
}

// The file is what a deployment of before the runtimes had: scanners with a
// type, the four limits, and the registry's own tables around them.
func TestAConfigurationOfTheOldShapeLoadsUnchanged(t *testing.T) {
	c := load(t, `
[server]
roles = ["proxy", "worker"]

[worker]
max_concurrent = 2
registries = ["npm"]
job_timeout_secs = 900
max_attempts = 5

[worker.sandbox]
runtime = "bwrap"
memory_limit_mb = 1024
cpu_seconds = 60
max_extracted_mb = 256
max_entries = 1000

[scanners.osv]
type = "osv"
api_url = "https://api.osv.dev"

[scanners.postmortem]
type = "postmortem"
command = "/usr/local/bin/postmortem"
timeline = false

[scanners.postmortem.escalation]
kinds = ["install_hook"]
count = 2
from = "medium"
to = "high"

[scanners.trivy]
type = "trivy"
endpoint = "http://trivy:4954"
timeout_secs = 90

[scanners.guarddog]
type = "guarddog"
command = "guarddog"
ecosystems = ["npm"]
`)
	s := c.Worker.Sandbox
	if s.Runtime != "bwrap" || s.MemoryLimitMB != 1024 || s.CPUSeconds != 60 || s.MaxExtractedMB != 256 || s.MaxEntries != 1000 {
		t.Errorf("sandbox %+v", s)
	}
	if p := c.Scanners["postmortem"]; p.Command != "/usr/local/bin/postmortem" || p.Timeline {
		t.Errorf("postmortem %+v", p)
	}
	if p := c.Scanners["trivy"]; p.Endpoint != "http://trivy:4954" || p.Timeout != 90*time.Second {
		t.Errorf("trivy %+v", p)
	}
	if len(c.Scanners) != 4 || len(c.Warnings) != 0 {
		t.Errorf("%d scanners, warnings %v", len(c.Scanners), c.Warnings)
	}
}

func TestALaterLayerCompletesAnEarlierOneKeyByKey(t *testing.T) {
	base := write(t, "base.toml", "[worker.sandbox]\ncpu_seconds = 10\nmemory_limit_mb = 64\n[scanners.x]\ncommand = \"a\"\nargs = [\"1\", \"2\"]\n")
	over := write(t, "over.toml", "[worker.sandbox]\ncpu_seconds = 20\n[scanners.x]\nargs = [\"3\"]\n[worker.sandbox.kubernetes]\nnamespace = \"sbx\"\n")
	c, err := Load(base, over)
	if err != nil {
		t.Fatal(err)
	}
	x := c.Scanners["x"]
	if c.Worker.Sandbox.CPUSeconds != 20 || c.Worker.Sandbox.MemoryLimitMB != 64 || x.Command != "a" || strings.Join(x.Args, " ") != "3" {
		t.Errorf("%+v %+v", c.Worker.Sandbox, x)
	}
	want := over + `:5: [worker.sandbox.kubernetes] has no effect under runtime "bwrap"`
	if len(c.Warnings) != 1 || c.Warnings[0].String() != want {
		t.Errorf("warnings %v, want %q", c.Warnings, want)
	}
}

func TestSubTablesOfRuntimesThatAreNotSelectedAreWarnings(t *testing.T) {
	c := load(t, "[worker.sandbox.oci]\nengine = \"docker\"\n[worker.sandbox.kubernetes]\nnode_selector = { \"kubernetes.io/arch\" = \"amd64\" }\n[worker.sandbox.crun]\nprogram = \"runc\"\n[worker.sandbox.bwrap]\nbinary = \"/usr/bin/bwrap\"\n")
	if len(c.Warnings) != 3 {
		t.Fatalf("%d warnings, want 3: %v", len(c.Warnings), c.Warnings)
	}
	if c.Worker.Sandbox.Bwrap.Binary != "/usr/bin/bwrap" {
		t.Errorf("binary %q", c.Worker.Sandbox.Bwrap.Binary)
	}
}

func TestALayoutMayBeAStringOrATable(t *testing.T) {
	c := load(t, `
[scanners.a]
command = "a"
layout = "file"
address_space_mb = -1
network = true
timeout = "90s"
[scanners.b]
command = "b"
timeout = 30
[scanners.b.layout]
path = "pkg/src"
nested = [{ member = "data.tar.*", into = "data" }]
files = { "conf/rules.toml" = "x = 1", "empty" = "" }
`)
	a, b := c.Scanners["a"], c.Scanners["b"]
	if a.Layout.Kind != "file" || a.AddressSpaceMB != -1 || a.Network == nil || !*a.Network || a.Timeout != 90*time.Second {
		t.Errorf("a %+v", a)
	}
	if b.Layout.Kind != "archive" || b.Layout.Path != "pkg/src" || b.Layout.Nested[0] != (Nested{"data.tar.*", "data"}) ||
		b.Layout.Files["conf/rules.toml"] != "x = 1" || b.Timeout != 30*time.Second || b.Network != nil {
		t.Errorf("b %+v %+v", b, b.Layout)
	}
}

func TestWithoutFilesTheDefaultsAreUsedUnlessTheSystemHasAFile(t *testing.T) {
	if _, err := os.Stat(DefaultFile); err == nil {
		t.Skip("not run: this host has a " + DefaultFile)
	}
	c, err := Load()
	if err != nil || c.Worker.Sandbox.Runtime != "bwrap" {
		t.Errorf("%+v, %v", c, err)
	}
}
