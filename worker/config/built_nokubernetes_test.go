//go:build nokubernetes

package config

import "testing"

// podReaches is empty where no pods are made.
var podReaches []string

// A build without the cluster's client library refuses its runtime by name, and
// says what it has; what names it in a table alone is as elsewhere.
func TestABuildWithoutTheKubernetesRuntimeRefusesItByName(t *testing.T) {
	checkRefusals(t, []refusal{{
		"the runtime", "[worker.sandbox]\nruntime = \"kubernetes\"",
		`:2: runtime "kubernetes" is not in this build; it has none, bwrap, oci, crun`,
	}})
	if c := load(t, podTable+"namespace = \"sandbox\"\n"); c.Worker.Sandbox.Kubernetes.Namespace != "sandbox" {
		t.Errorf("%+v", c.Worker.Sandbox.Kubernetes)
	}
}
