package cluster_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
)

// What a worker that is taken over may still make with its account, by hand: no
// pod that no quota counts, and none that reaches a kubelet, the API server or the
// storage because it leaves a run's labels out.
func TestATakenOverWorkerMakesNoPodThatHoldsOrReachesMore(t *testing.T) {
	i := newInstall(t, "worker: {sandbox: {kubernetes: {quotaPool: 2}}}")
	i.scale(t, 0)
	for _, c := range []struct{ name, deadline, memory, want string }{
		{"no deadline", "", "16Mi", "exceeded quota: batlehub-sandbox-no-deadline"},
		{"no deadline and 100 GiB", "", "100Gi", "exceeded quota: batlehub-sandbox-no-deadline"},
		{"100 GiB", "activeDeadlineSeconds: 60", "100Gi", "exceeded quota: batlehub-sandbox,"},
	} {
		if _, err := i.byHand(t, c.deadline, c.memory, "nothing"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	node := i.kubectl(t, "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	api := i.kubectl(t, "-n", "default", "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	targets := []string{node + ":10250", api + ":443", i.storage.String()}
	for _, target := range targets {
		if i.reaches(t, target) {
			t.Errorf("a pod without labels reaches %s", target)
		}
	}
	// It is the policy that held them.
	i.kubectl(t, "-n", i.sandboxes, "delete", "networkpolicy", "batlehub-sandbox-deny")
	for _, target := range targets {
		if !i.reaches(t, target) {
			t.Errorf("without the policy a pod does not reach %s", target)
		}
	}
}

func (i *install) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := i.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reaches says whether a pod that the worker's account makes reaches an address
// within ten seconds.
func (i *install) reaches(t *testing.T, address string) bool {
	t.Helper()
	name, err := i.byHand(t, "activeDeadlineSeconds: 60", "64Mi", "reach", address)
	if err != nil {
		t.Fatal(err)
	}
	const state = "{.status.containerStatuses[0].state.terminated.exitCode}"
	i.kubectl(t, "-n", i.sandboxes, "wait", "--for=jsonpath="+state, "pod/"+name, "--timeout=55s")
	code := i.kubectl(t, "-n", i.sandboxes, "get", "pod", name, "-o", "jsonpath="+state)
	if code != "0" && code != "1" {
		t.Errorf("%s ended with %s", name, code)
	}
	return code == "0"
}

// byHand makes a pod without labels as the worker's account, and returns its name.
func (i *install) byHand(t *testing.T, deadline, memory string, argv ...string) (string, error) {
	t.Helper()
	name := "by-hand-" + strings.ToLower(rand.Text()[:8])
	pod := fmt.Sprintf(podFormat, name, deadline, i.scanner, strings.Join(argv, `", "`), memory)
	_, err := i.Kubectl(t.Context(), pod, "-n", i.sandboxes, "--as=system:serviceaccount:"+i.Namespace+":batlehub-sandbox-worker", "create", "-f", "-")
	return name, err
}

const podFormat = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  %s
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: inmate
      image: %s
      command: [inmate, "%s"]
      env: [{name: PATH, value: "/usr/local/bin:/usr/bin:/bin"}]
      resources: {limits: {cpu: 100m, memory: %s}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`
