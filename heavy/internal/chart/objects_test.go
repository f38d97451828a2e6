package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

// object decodes a rendered object into its kind's type, in which every field has
// to be known.
func object[T any](t *testing.T, documents map[string][]byte, key string) T {
	t.Helper()
	var o T
	if documents[key] == nil {
		t.Fatalf("there is no %s", key)
	}
	if err := yaml.UnmarshalStrict(documents[key], &o); err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return o
}

func TestEveryObjectIsItsKindsFieldByField(t *testing.T) {
	for _, name := range cases(t) {
		for key, document := range documents(t, render(t, name)) {
			kind, _, _ := strings.Cut(key, "/")
			var into any
			switch kind {
			case "ServiceAccount":
				into = &corev1.ServiceAccount{}
			case "ConfigMap":
				into = &corev1.ConfigMap{}
			case "Namespace":
				into = &corev1.Namespace{}
			case "ResourceQuota":
				into = &corev1.ResourceQuota{}
			case "Role":
				into = &rbacv1.Role{}
			case "RoleBinding":
				into = &rbacv1.RoleBinding{}
			case "NetworkPolicy":
				into = &networkingv1.NetworkPolicy{}
			case "Deployment":
				into = &appsv1.Deployment{}
			case "CiliumNetworkPolicy":
				into = &ciliumPolicy{}
			default:
				t.Errorf("%s: %s is no kind of the chart's", name, key)
				continue
			}
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Errorf("%s: %s: %v", name, key, err)
			}
		}
	}
}

// The five verbs of the specification on pods, nothing on a subresource, and no
// other role; bound to the worker's account alone, wherever that is.
func TestTheWorkerMayMakeWatchAndDeletePodsAndNothingElse(t *testing.T) {
	for name, account := range map[string]rbacv1.Subject{
		"kubernetes":      {Kind: "ServiceAccount", Name: "batlehub-sandbox-worker", Namespace: "batlehub"},
		"kubernetes-full": {Kind: "ServiceAccount", Name: "scan-worker", Namespace: "batlehub"},
	} {
		all := documents(t, render(t, name))
		namespace := map[string]string{"kubernetes": "batlehub", "kubernetes-full": "scans"}[name]
		role := object[rbacv1.Role](t, all, "Role/batlehub-sandbox")
		want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "get", "list", "watch", "delete"}}}
		if !reflect.DeepEqual(role.Rules, want) || role.Namespace != namespace {
			t.Errorf("%s: the role in %s is %+v", name, role.Namespace, role.Rules)
		}
		binding := object[rbacv1.RoleBinding](t, all, "RoleBinding/batlehub-sandbox")
		if !reflect.DeepEqual(binding.Subjects, []rbacv1.Subject{account}) || binding.Namespace != namespace {
			t.Errorf("%s: the role is bound in %s to %+v, want %+v", name, binding.Namespace, binding.Subjects, account)
		}
		if ref := (rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: role.Name}); binding.RoleRef != ref {
			t.Errorf("%s: bound is %+v", name, binding.RoleRef)
		}
		for key := range all {
			if kind, _, _ := strings.Cut(key, "/"); strings.HasPrefix(kind, "Cluster") || kind == "Secret" {
				t.Errorf("%s: there is a %s", name, key)
			}
		}
		if worker := object[appsv1.Deployment](t, all, "Deployment/batlehub-sandbox"); worker.Spec.Template.Spec.ServiceAccountName != account.Name {
			t.Errorf("%s: the worker runs as %s", name, worker.Spec.Template.Spec.ServiceAccountName)
		}
	}
}

func TestASandboxRunsAsAnAccountWithoutTokenOrRole(t *testing.T) {
	for name, account := range map[string]string{"kubernetes": kubernetes.DefaultServiceAccount, "kubernetes-full": "scans"} {
		all := documents(t, render(t, name))
		a := object[corev1.ServiceAccount](t, all, "ServiceAccount/"+account)
		if a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
			t.Errorf("%s: %s has a token", name, account)
		}
		for _, s := range object[rbacv1.RoleBinding](t, all, "RoleBinding/batlehub-sandbox").Subjects {
			if s.Name == account {
				t.Errorf("%s: %s has a role", name, account)
			}
		}
	}
}

// The worker's pod and the sandboxes' namespace are held to the restricted level,
// by Pod Security's own evaluator.
func TestTheWorkersPodIsRestrictedAndSoIsTheSandboxesNamespace(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cases(t) {
		for broken := range 2 {
			pod := object[appsv1.Deployment](t, documents(t, render(t, name)), "Deployment/batlehub-sandbox").Spec.Template
			if broken == 1 {
				pod.Spec.Containers[0].SecurityContext.Capabilities = nil
			}
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
			if result.Allowed == (broken == 1) {
				t.Errorf("%s: broken %d: allowed %v: %s", name, broken, result.Allowed, result.ForbiddenDetail())
			}
		}
	}
	namespace := object[corev1.Namespace](t, documents(t, render(t, "kubernetes-full")), "Namespace/scans")
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if level := namespace.Labels["pod-security.kubernetes.io/"+mode]; level != "restricted" {
			t.Errorf("%s is %q", mode, level)
		}
	}
	if namespace.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Error("the namespace goes with the release, and every pod that still runs")
	}
}

// With another namespace for the sandboxes all that is theirs is in it, and what
// is the worker's is not.
func TestWhatIsTheSandboxesIsInTheirNamespace(t *testing.T) {
	theirs := map[string]bool{
		"Role/batlehub-sandbox": true, "RoleBinding/batlehub-sandbox": true, "ServiceAccount/scans": true,
		"ResourceQuota/batlehub-sandbox": true, "ResourceQuota/batlehub-sandbox-no-deadline": true,
		"NetworkPolicy/batlehub-sandbox-storage": true, "NetworkPolicy/batlehub-sandbox-egress": true, "NetworkPolicy/batlehub-sandbox-deny": true,
	}
	for key, document := range documents(t, render(t, "kubernetes-full")) {
		var head struct{ Metadata struct{ Namespace string } }
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatal(err)
		}
		want := "batlehub"
		switch {
		case theirs[key]:
			want = "scans"
		case strings.HasPrefix(key, "Namespace/"):
			want = ""
		}
		if head.Metadata.Namespace != want {
			t.Errorf("%s is in %q, want %q", key, head.Metadata.Namespace, want)
		}
	}
}

// A sweep goes by labels, which the worker's own pod must not have.
func TestTheWorkersPodIsNoSandboxToASweep(t *testing.T) {
	for _, name := range cases(t) {
		labels := object[appsv1.Deployment](t, documents(t, render(t, name)), "Deployment/batlehub-sandbox").Spec.Template.Labels
		if labels[kubernetes.LabelName] == kubernetes.AppName || labels[kubernetes.LabelComponent] == kubernetes.Component || labels[kubernetes.LabelNetwork] != "" {
			t.Errorf("%s: the worker's labels are a sandbox's: %v", name, labels)
		}
	}
}

// The suite makes the chart's objects in its own namespaces: they are these.
func TestTheSuiteMakesWhatTheChartRenders(t *testing.T) {
	text, err := os.ReadFile("../../../conformance/targets/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	suite := documents(t, string(text))
	ours := documents(t, render(t, "kubernetes", `
worker: {sandbox: {kubernetes: {namespace: batlehub-sandbox, egressAllow: [{cidr: 0.0.0.0/0}]}}}
serviceAccount: {name: batlehub-worker}`))
	for _, key := range slices.Sorted(maps.Keys(suite)) {
		got, want := bare(t, ours[key]), bare(t, suite[key])
		switch key {
		case "RoleBinding/batlehub-sandbox":
			// The suite's worker has its account beside the sandboxes.
			want = strings.Replace(want, `"namespace":"batlehub-sandbox"`, `"namespace":"batlehub"`, 1)
		case "ResourceQuota/batlehub-sandbox", "ServiceAccount/batlehub-worker":
			// How much there is room for, and how the worker gets its token, are the suite's own.
			continue
		}
		if got != want {
			t.Errorf("%s of the suite is\n%s\nthe chart's\n%s", key, want, got)
		}
	}
	for _, key := range []string{"Role/batlehub-sandbox", "NetworkPolicy/batlehub-sandbox-storage", "NetworkPolicy/batlehub-sandbox-egress"} {
		if suite[key] == nil {
			t.Errorf("the suite makes no %s", key)
		}
	}
}

// bare is an object without its metadata, in one way of writing.
func bare(t *testing.T, document []byte) string {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal(document, &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "metadata")
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
