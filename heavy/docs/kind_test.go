package docs

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// kind-config.yaml is what kind itself would read, key by key, and leaves the
// enforcement of NetworkPolicies to a plugin that does it.
func TestTheKindConfigurationIsKinds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "kind-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c v1alpha4.Cluster
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		t.Fatalf("kind's type does not take it: %v", err)
	}
	if c.Kind != "Cluster" || c.APIVersion != "kind.x-k8s.io/v1alpha4" {
		t.Errorf("it is a %s of %s", c.Kind, c.APIVersion)
	}
	if !c.Networking.DisableDefaultCNI {
		t.Error("kind's own network plugin is not left out: Calico would stand beside it")
	}
	v1alpha4.SetDefaultsCluster(&c)
	for name, subnet := range map[string]string{"podSubnet": c.Networking.PodSubnet, "serviceSubnet": c.Networking.ServiceSubnet} {
		if _, err := netip.ParsePrefix(subnet); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, node := range c.Nodes {
		if node.Role != v1alpha4.ControlPlaneRole && node.Role != v1alpha4.WorkerRole {
			t.Errorf("node %d has the role %q", i, node.Role)
		}
		for _, patch := range node.KubeadmConfigPatches {
			var document struct{ Kind string }
			if err := yaml.Unmarshal([]byte(patch), &document); err != nil || document.Kind == "" {
				t.Errorf("node %d has a patch that is no document with a kind: %v", i, err)
			}
		}
	}
}
