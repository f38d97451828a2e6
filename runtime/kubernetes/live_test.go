package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testkit.Clean()
	os.Exit(code)
}

// live is a namespace of a real cluster as the chart makes one, and a runtime
// with the rights of the worker's service account there.
type live struct {
	*Runtime
	t         *testing.T
	admin     *rest.Config
	client    *rest.RESTClient
	worker    string
	namespace string
	server    netip.AddrPort
	hop       *bundle.Hop
	api       *rest.Config
}

// role are the rights of the worker: those of the RFC, and no other.
const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"worker"},
"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["create","get","list","watch","delete"]}]}`

const binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"worker"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"worker"},
"subjects":[{"kind":"ServiceAccount","name":"worker","namespace":%q}]}`

// createOptions are those of a pod that a test makes by itself.
var createOptions = metav1.CreateOptions{}

// storagePolicy lets the pods of runs reach the storage and the cluster's resolver.
const storagePolicy = `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"storage"},"spec":{
"podSelector":{"matchLabels":{"io.batlehub/network":"storage"}},"policyTypes":["Ingress","Egress"],
"egress":[{"to":[{"ipBlock":{"cidr":"%s/32"}}],"ports":[{"protocol":"TCP","port":%d}]},
{"to":[{"namespaceSelector":{},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}],
"ports":[{"protocol":"UDP","port":53},{"protocol":"TCP","port":53}]}]}}`

// options are those of a live namespace.
type options struct {
	unguarded bool // without a NetworkPolicy
	config    func(*Config)
}

func newLive(t *testing.T, o options) *live {
	t.Helper()
	admin, _, err := Connect(testkit.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, admin: admin, worker: "t" + strings.ToLower(rand.Text()[:10])}
	l.namespace = "sbx-" + l.worker
	l.client = adminClient(t, admin)
	l.makeNamespace(o)
	l.api = l.asWorker()
	l.Runtime = l.with(o.config)
	t.Cleanup(l.nothingLeft)
	return l
}

func adminClient(t *testing.T, admin *rest.Config) *rest.RESTClient {
	t.Helper()
	p, err := newPods(Config{API: admin, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	return p.client.(*rest.RESTClient)
}

func (l *live) makeNamespace(o options) {
	l.t.Helper()
	l.post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{
		"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/enforce-version":"latest"}}}`, l.namespace)
	l.t.Cleanup(func() {
		if err := l.client.Delete().AbsPath("/api/v1/namespaces/" + l.namespace).Do(context.Background()).Error(); err != nil {
			l.t.Error(err)
		}
	})
	in, rbac := "/api/v1/namespaces/"+l.namespace, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+l.namespace
	for _, account := range []string{DefaultServiceAccount, "worker"} {
		l.post(in+"/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`, account)
	}
	l.post(rbac+"/roles", role)
	l.post(rbac+"/rolebindings", binding, l.namespace)
	backend, server := testkit.S3(l.t, l.host())
	l.server = server
	l.hop = bundle.NewHop(bundle.HopConfig{Runtime: Name, Leaf: backend})
	l.t.Cleanup(func() {
		if err := l.hop.Close(); err != nil {
			l.t.Error(err)
		}
	})
	if !o.unguarded {
		l.post("/apis/networking.k8s.io/v1/namespaces/"+l.namespace+"/networkpolicies", storagePolicy, server.Addr(), server.Port())
	}
}

// host is the address by which the cluster's nodes see this host.
func (l *live) host() netip.Addr {
	l.t.Helper()
	u, err := url.Parse(l.admin.Host)
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := net.Dial("udp", u.Host)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	return netip.MustParseAddrPort(c.LocalAddr().String()).Addr()
}

// asWorker is the API as the worker's service account sees it.
func (l *live) asWorker() *rest.Config {
	l.t.Helper()
	answer := l.post("/api/v1/namespaces/"+l.namespace+"/serviceaccounts/worker/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &token); err != nil {
		l.t.Fatal(err)
	}
	api := rest.AnonymousClientConfig(l.admin)
	api.BearerToken = token.Status.Token
	return api
}

func (l *live) post(path, format string, args ...any) []byte {
	l.t.Helper()
	b, err := l.client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").
		Body(fmt.Appendf(nil, format, args...)).Do(l.t.Context()).Raw()
	if err != nil {
		l.t.Fatalf("POST %s: %v: %s", path, err, b)
	}
	return b
}

// with is another runtime of the same worker.
func (l *live) with(change func(*Config)) *Runtime {
	l.t.Helper()
	c := Config{
		API: l.api, Namespace: l.namespace, Hop: l.hop, Worker: l.worker,
		Image: agentImage(l.t), Canaries: []netip.AddrPort{l.canary()},
	}
	c.API = rest.CopyConfig(c.API)
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return r
}

// canary listens where a pod without walls could reach it.
func (l *live) canary() netip.AddrPort {
	l.t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(l.host(), 0).String())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { listener.Close() })
	return netip.MustParseAddrPort(listener.Addr().String())
}

func (l *live) podNames() []string {
	var names []string
	list := &corev1.PodList{}
	if err := l.client.Get().AbsPath("/api/v1/namespaces/" + l.namespace + "/pods").Do(context.Background()).Into(list); err != nil {
		l.t.Fatal(err)
	}
	for _, p := range list.Items {
		names = append(names, p.Name+" "+string(p.Status.Phase))
	}
	return names
}

func (l *live) nothingLeft() {
	if left := l.podNames(); len(left) > 0 {
		l.t.Errorf("pods are left: %q", left)
	}
}

func (l *live) spec(argv ...string) sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: append([]string{"tool"}, argv...),
		StartTimeout: time.Minute, Timeout: time.Minute, Limits: wire.Limits{MemoryMB: 600, AddressSpaceMB: wire.AddressSpaceOff, CPUSeconds: 60},
		Label: wire.Label{Worker: l.worker, Job: "j-" + l.worker, Scanner: "tool", Attempt: 1},
	}
}

// must runs a command in the sandbox that has to succeed.
func (l *live) must(argv ...string) string {
	l.t.Helper()
	out, err := l.Run(l.t.Context(), l.spec(argv...))
	if err != nil {
		l.t.Fatal(err)
	}
	if out.Status == nil || *out.Status != 0 {
		l.t.Fatalf("%q: status %v, %s", argv, out.Status, out.StderrTail)
	}
	return string(bytes.TrimSpace(out.Stdout))
}

var imageName string

// agentImage is the image of the agent and the tool, made once.
func agentImage(t *testing.T) string {
	t.Helper()
	if imageName == "" {
		imageName = testkit.ClusterImage(t, "batlehub.test/tool", testkit.AgentFiles(t, nil))
		t.Cleanup(func() { imageName = "" })
	}
	return imageName
}
