//go:build !nokubernetes

package build

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// wholeAffinity has every name that a pod's affinity may have.
const wholeAffinity = `
[[worker.sandbox.kubernetes.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms]]
matchExpressions = [{ key = "a", operator = "In", values = ["b"] }]
matchFields = [{ key = "metadata.name", operator = "NotIn", values = ["n"] }]
[[worker.sandbox.kubernetes.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution]]
weight = 1
preference = { matchExpressions = [{ key = "a", operator = "Exists" }] }
[[worker.sandbox.kubernetes.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution]]
topologyKey = "zone"
namespaces = ["n"]
matchLabelKeys = ["a"]
mismatchLabelKeys = ["b"]
labelSelector = { matchLabels = { a = "b" }, matchExpressions = [{ key = "a", operator = "Exists" }] }
namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = "n" } }
[[worker.sandbox.kubernetes.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution]]
weight = 100
podAffinityTerm = { topologyKey = "zone" }
`

// What the configuration lets pass and what the cluster's own types know are
// the same words.
func TestTheWholeOfAnAffinityReachesThePod(t *testing.T) {
	o := loaded(t, podConfig(kubeconfig(t, "https://192.0.2.1:6443"), "http://192.0.2.1:9000", wholeAffinity))
	c, err := o.cluster()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(c.Affinity)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	got, _ = json.Marshal(back) // its keys are in order now
	if want, err := json.Marshal(o.Sandbox.Kubernetes.Affinity); err != nil || string(got) != string(want) {
		t.Errorf("got  %s\nwant %s, %v", got, want, err)
	}
}

// A release of the cluster's types that knows less is not hidden.
func TestWordsThatTheClusterDoesNotKnowAreRefused(t *testing.T) {
	file := kubeconfig(t, "https://192.0.2.1:6443")
	for want, affinity := range map[string]map[string]any{
		`affinity: json: unknown field "required"`: {"nodeAffinity": map[string]any{"required": 1}},
		"affinity: json: cannot unmarshal":         {"podAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": 1}},
	} {
		o := loaded(t, podConfig(file, "http://192.0.2.1:9000", ""))
		o.Sandbox.Kubernetes.Affinity = affinity
		if _, err := Runtime(o); !config.IsConfig(err) || !strings.Contains(err.Error(), "[worker.sandbox.kubernetes] "+want) {
			t.Errorf("%v: %v", affinity, err)
		}
	}
}
