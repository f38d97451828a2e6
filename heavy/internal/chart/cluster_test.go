package chart_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
)

// realCluster is the cluster of the environment as whoever may do everything, and
// two namespaces of it: the worker's and the sandboxes'.
type realCluster struct {
	api             *client.Clientset
	objects         *dynamic.DynamicClient
	mapper          *restmapper.DeferredDiscoveryRESTMapper
	worker, sandbox string
}

func openCluster(t *testing.T) *realCluster {
	t.Helper()
	kubeconfig := os.Getenv("BATLEHUB_TEST_KUBECONFIG")
	if reason, not := strings.CutPrefix(kubeconfig, "not run: "); not || kubeconfig == "" {
		if reason == "" {
			reason = `no cluster was named (eval "$(scripts/cluster.sh env)" after scripts/cluster.sh up)`
		}
		t.Skipf("not run: %s", reason)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler, config.QPS, config.Burst = rest.NoWarnings{}, 50, 100
	c := &realCluster{api: client.NewForConfigOrDie(config), objects: dynamic.NewForConfigOrDie(config)}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.api.Discovery()))
	c.worker, c.sandbox = c.namespace(t), c.namespace(t)
	return c
}

// namespace makes one that holds its pods to "restricted", as an operator is told to.
func (c *realCluster) namespace(t *testing.T) string {
	t.Helper()
	made, err := c.api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "chart-test-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.api.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return made.Name
}

// apply applies an object as "kubectl apply --server-side" does, or only asks
// whether it would be taken. A field that its kind does not have is an error.
func (c *realCluster) apply(ctx context.Context, document []byte, dry bool) error {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(document, &o.Object); err != nil {
		return err
	}
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "chart-test", FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	kinds := c.objects.Resource(mapping.Resource)
	if o.GetNamespace() == "" {
		_, err = kinds.Patch(ctx, o.GetName(), types.ApplyPatchType, body, options)
	} else {
		_, err = kinds.Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body, options)
	}
	return err
}

// in renders a case for the cluster's namespaces.
func (c *realCluster) in(t *testing.T, name string) map[string][]byte {
	t.Helper()
	over := "worker: {sandbox: {kubernetes: {createNamespace: false, namespace: " + c.sandbox + "}}}"
	text, err := chart.Render(dir, chart.Release{Name: installed.Name, Namespace: c.worker}, valuesOf(t, name, over))
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, text)
}

// A real API server takes every object, down to the last field; and the worker's
// pod where Pod Security is enforced.
func TestLiveAnAPIServerTakesEveryRender(t *testing.T) {
	c := openCluster(t)
	for _, name := range cases(t) {
		all := c.in(t, name)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(key, "CiliumNetworkPolicy/") {
				t.Logf("%s: %s: this cluster has no such kind", name, key)
				continue
			}
			if err := c.apply(t.Context(), all[key], true); err != nil {
				t.Errorf("%s: %s: %v", name, key, err)
			}
		}
		template := object[appsv1.Deployment](t, all, "Deployment/batlehub-sandbox").Spec.Template
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "worker-", Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec}
		pod.Spec.ServiceAccountName = "default"
		if _, err := c.api.CoreV1().Pods(c.worker).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s: the worker's pod: %v", name, err)
		}
	}
	// It is a server that looks: a field that there is not is refused.
	wrong := strings.Replace(string(c.in(t, "kubernetes")["Deployment/batlehub-sandbox"]), "enableServiceLinks:", "enableServicesLinks:", 1)
	if err := c.apply(t.Context(), []byte(wrong), true); err == nil {
		t.Error("a field that no pod has is taken")
	}
}

// What the applied Role lets the worker do, asked of the server that decides.
func TestLiveTheWorkerHasFiveRightsAndASandboxNone(t *testing.T) {
	c := openCluster(t)
	all := c.in(t, "kubernetes")
	for _, key := range []string{"ServiceAccount/batlehub-sandbox", "ServiceAccount/batlehub-sandbox-worker", "Role/batlehub-sandbox", "RoleBinding/batlehub-sandbox"} {
		if err := c.apply(t.Context(), all[key], false); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	worker := "system:serviceaccount:" + c.worker + ":batlehub-sandbox-worker"
	sandbox := "system:serviceaccount:" + c.sandbox + ":batlehub-sandbox"
	for _, verb := range []string{"create", "get", "list", "watch", "delete", "update", "patch", "deletecollection"} {
		for _, what := range []string{"pods", "pods/exec", "pods/attach", "pods/log", "pods/ephemeralcontainers", "secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "networkpolicies", "resourcequotas", "jobs"} {
			for _, namespace := range []string{c.sandbox, c.worker, "kube-system", ""} {
				want := what == "pods" && namespace == c.sandbox && !slices.Contains([]string{"update", "patch", "deletecollection"}, verb)
				if may := c.may(t, worker, verb, what, namespace); may != want {
					t.Errorf("the worker may %s %s in %q: %v", verb, what, namespace, may)
				}
				if namespace != "kube-system" && c.may(t, sandbox, verb, what, namespace) {
					t.Errorf("a sandbox may %s %s in %q", verb, what, namespace)
				}
			}
		}
	}
}

func (c *realCluster) may(t *testing.T, who, verb, what, namespace string) bool {
	t.Helper()
	groups := map[string]string{"networkpolicies": "networking.k8s.io", "jobs": "batch"}
	kind, sub, _ := strings.Cut(what, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: groups[kind], Resource: kind, Subresource: sub},
	}}
	got, err := c.api.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Allowed
}

// In a namespace that both share, the quota bounds sandboxes and asks nothing of
// the worker's pod, which has no limits.
func TestLiveTheQuotaBoundsSandboxesAndNoWorker(t *testing.T) {
	c := openCluster(t)
	c.sandbox = c.worker
	all := c.in(t, "kubernetes")
	if err := c.apply(t.Context(), all["ResourceQuota/batlehub-sandbox"], false); err != nil {
		t.Fatal(err)
	}
	worker := object[appsv1.Deployment](t, all, "Deployment/batlehub-sandbox").Spec.Template.Spec
	worker.ServiceAccountName = "default"
	for _, p := range []struct {
		name, memory string
		want         bool
	}{{"the worker's pod", "", true}, {"a sandbox of 2048 MiB", "2048Mi", true}, {"a sandbox of 2561 MiB", "2561Mi", false}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: *worker.DeepCopy()}
		if p.memory != "" {
			pod.Spec.ActiveDeadlineSeconds, pod.Spec.RestartPolicy = new(int64(60)), corev1.RestartPolicyNever
			memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(p.memory)}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: memory, Requests: memory}
		}
		_, err := c.api.CoreV1().Pods(c.worker).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if (err == nil) != p.want || err != nil && !strings.Contains(err.Error(), "exceeded quota") {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}
