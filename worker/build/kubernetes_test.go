//go:build !nokubernetes

package build

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// kubeconfig is the file of a cluster at that URL, with a namespace of its own.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"t"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"its-own"}}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func podConfig(kubeconfig, s3, more string) string {
	return fmt.Sprintf("[worker.sandbox]\nruntime = \"kubernetes\"\n[storage.backends.minio]\ntype = \"s3\"\nendpoint = %q\n"+
		"bucket = \"cache\"\npath_style = true\naccess_key = \"a\"\nsecret_key = \"s\"\n[worker.sandbox.kubernetes]\nkubeconfig = %q\n%s", s3, kubeconfig, more)
}

func TestAClustersRunsSayWhereTheyTakePlace(t *testing.T) {
	file := kubeconfig(t, "https://192.0.2.1:6443")
	for _, c := range []struct{ more, want string }{
		{"", "namespace its-own, bundles on s3://cache/sandbox/"},
		{"namespace = \"batlehub-sandbox\"\nruntime_class = \"gvisor\"", "namespace batlehub-sandbox, runtime class gvisor, bundles on s3://cache/sandbox/"},
	} {
		b, err := Runtime(loaded(t, podConfig(file, "http://192.0.2.1:9000", c.more)))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Placement("room"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if _, is := b.Runtime.(sandbox.JobCloser); !is || b.Name() != "kubernetes" || b.Work != "/work" || b.Images == nil {
			t.Errorf("%+v", b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAWorkerWithoutAClusterIsRefusedInOneLine(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for file, want := range map[string]string{"": "this worker runs in no pod", "/nonexistent": "reading the kubeconfig /nonexistent"} {
		_, err := Runtime(loaded(t, podConfig(file, "http://192.0.2.1:9000", "")))
		if !config.IsConfig(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestPodsBelongToTheWorkersPodInItsNamespaceAlone(t *testing.T) {
	o := loaded(t, podConfig(kubeconfig(t, "https://192.0.2.1:6443"), "http://192.0.2.1:9000", ""))
	o.Getenv = func(name string) string {
		return map[string]string{PodNameVariable: "worker-0", PodUIDVariable: "uid"}[name]
	}
	// A worker outside of the cluster has no pod in it.
	c, err := o.cluster()
	if err != nil || c.Owner != nil {
		t.Errorf("%+v, %v", c.Owner, err)
	}
	if got := kubernetes.Owner("worker-0", "uid"); got == nil || got.Kind != "Pod" || got.Name != "worker-0" || got.UID != "uid" || got.Controller != nil {
		t.Errorf("%+v", got)
	}
	for _, pair := range [][2]string{{"", "uid"}, {"worker-0", ""}} {
		if kubernetes.Owner(pair[0], pair[1]) != nil {
			t.Errorf("%q make an owner", pair)
		}
	}
}

// The RFC's example, from its text to the pod that the API server is asked for.
func TestTheRFCsExampleMakesItsPod(t *testing.T) {
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"e"`)
	}))
	defer s3.Close()
	asked := make(chan []byte, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var pod json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
			t.Error(err)
		}
		asked <- pod
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"enough"}`)
	}))
	defer api.Close()
	postmortem := "registry.example/batlehub-sandbox-postmortem@sha256:" + strings.Repeat("a", 64)
	guarddog := "registry.example/batlehub-sandbox-guarddog@sha256:" + strings.Repeat("b", 64)
	text := `
[worker.sandbox]
runtime         = "kubernetes"
memory_limit_mb = 2048
cpu_seconds     = 300

[worker.sandbox.kubernetes]
namespace       = "batlehub-sandbox"
runtime_class   = "gvisor"
image           = "` + postmortem + `"

[scanners.guarddog]
command = "guarddog"
image   = "` + guarddog + `"
`
	// What only a test needs is another layer.
	text = strings.Replace(text, "[worker.sandbox.kubernetes]\n", fmt.Sprintf("[worker.sandbox.kubernetes]\nkubeconfig = %q\n", kubeconfig(t, api.URL)), 1) +
		fmt.Sprintf("[storage.backends.minio]\ntype = \"s3\"\nendpoint = %q\nbucket = \"cache\"\npath_style = true\naccess_key = \"a\"\nsecret_key = \"s\"\n",
			strings.Replace(s3.URL, "127.0.0.1", "localhost.localdomain", 1))
	o := loaded(t, text)
	// A server of a test is on the loopback, which no configuration may name.
	backend := o.Storage.Backends["minio"]
	backend.Endpoint = s3.URL
	o.Storage.Backends["minio"], o.Bundles = backend, backend
	b, err := Runtime(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	limits := wire.DefaultLimits()
	limits.MemoryMB, limits.CPUSeconds = o.Sandbox.MemoryLimitMB, o.Sandbox.CPUSeconds
	_, err = b.Run(context.Background(), sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: []string{"guarddog"}, Limits: limits,
		StartTimeout: 10 * time.Second, Timeout: time.Minute, Image: guarddog,
		Label: wire.Label{Worker: "w", Job: "j", Scanner: "guarddog", Attempt: 1},
	})
	if sandbox.KindOf(err) != sandbox.Refused {
		t.Fatal(err)
	}
	pod := string(<-asked)
	for _, want := range []string{
		`"namespace":"batlehub-sandbox"`, `"runtimeClassName":"gvisor"`, `"image":"` + guarddog + `"`, `"memory":"2Gi"`,
		`"generateName":"batlehub-sbx-guarddog-"`, `"io.batlehub/worker":"w"`, `"activeDeadlineSeconds":70`,
		"--in", s3.URL + "/cache/sandbox/w/j/guarddog/1/manifest.json?", s3.URL + "/cache/sandbox/w/j/guarddog/1/out.tar?",
	} {
		if !strings.Contains(pod, want) {
			t.Errorf("there is no %s in %s", want, pod)
		}
	}
}

// A node can't pull by an image's id, which an engine takes.
func TestAnImageThatNoPodCanHaveIsRefusedWhereItIsWritten(t *testing.T) {
	pods := podConfig("", "http://192.0.2.1:9000", "")
	id := "sha256:" + strings.Repeat("ab", 32)
	checkImages(t, pods+"[scanners.x]\nimage = \"a b\"\n", `:13: scanner 'x': image "a b" is not an image's name: invalid reference format; want registry/name@sha256:…`)
	checkImages(t, pods+"image = \"A\"\n", `:12: image "A" is not an image's name: invalid reference format: repository name (library/A) must be lowercase; want registry/name@sha256:…`)
	checkImages(t, pods+"image = \""+id+"\"\n", `:12: image "`+id+`" is an image's id, by which no node can pull; want registry/name@sha256:…`)
	checkImages(t, pods+"image = \"scanner@"+id+"\"\n", "")
}
