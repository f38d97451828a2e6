package docs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rendered is the part of the chart's objects that decides what a pod may do.
type rendered struct {
	Kind     string
	Metadata struct{ Name string }
	Rules    any
	Spec     struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Egress      []any
	}
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
}

func readRendered(t *testing.T, file string) (list []rendered) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var o rendered
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, o)
	}
}

// find returns the one object that is wanted.
func find(t *testing.T, list []rendered, what string, is func(rendered) bool) rendered {
	t.Helper()
	for _, o := range list {
		if is(o) {
			return o
		}
	}
	t.Fatalf("there is no %s", what)
	return rendered{}
}

// The suite makes its namespaces of a text of its own, for its library can't
// render a chart. What it checks is worth something only if the chart says the
// same: policies and the worker's rights, word for word.
func TestTheSuitesNamespaceIsTheCharts(t *testing.T) {
	chart := readRendered(t, "heavy/internal/chart/testdata/kubernetes.golden.yaml")
	suite := readRendered(t, "conformance/targets/kubernetes.yaml")
	for _, network := range []string{"storage", "egress"} {
		policy := func(o rendered) bool {
			return o.Kind == "NetworkPolicy" && o.Spec.PodSelector.MatchLabels["io.batlehub/network"] == network
		}
		want, got := find(t, chart, "policy "+network, policy).Spec, find(t, suite, "policy "+network, policy).Spec
		if network == "egress" {
			// The suite's operator allows everything besides.
			got.Egress = got.Egress[:len(got.Egress)-1]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the policy for %s is\n%v\nwant the chart's\n%v", network, got, want)
		}
	}
	role := func(o rendered) bool { return o.Kind == "Role" }
	if want, got := find(t, chart, "Role", role).Rules, find(t, suite, "Role", role).Rules; !reflect.DeepEqual(got, want) {
		t.Errorf("the worker may do\n%v\nwant the chart's\n%v", got, want)
	}
	account := func(o rendered) bool { return o.Kind == "ServiceAccount" && o.Metadata.Name == "batlehub-sandbox" }
	want, got := find(t, chart, "ServiceAccount", account), find(t, suite, "ServiceAccount", account)
	if got.AutomountServiceAccountToken == nil || *got.AutomountServiceAccountToken || !reflect.DeepEqual(got, want) {
		t.Errorf("the pods' account is %v, want the chart's %v", got, want)
	}
}
