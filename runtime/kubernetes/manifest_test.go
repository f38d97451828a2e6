package kubernetes

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	signedGet = "https://minio.batlehub.svc/b/sandbox/w1/j7/gitleaks/2/manifest.json?X-Amz-Signature=aa"
	signedPut = "https://minio.batlehub.svc/b/sandbox/w1/j7/gitleaks/2/out.tar?X-Amz-Signature=bb"
	digest    = "registry.example/scanner@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

var signed = urls{signedGet, signedPut}

func podSpec() sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: []string{"scan"}, Limits: wire.DefaultLimits(),
		StartTimeout: 2 * time.Minute, Timeout: 5 * time.Minute,
		Label: wire.Label{Worker: "w1", Job: "j7", Scanner: "gitleaks", Attempt: 2},
	}
}

func podConfig() Config {
	return Config{
		API: &rest.Config{Host: "https://192.0.2.1"}, Namespace: "batlehub-sandbox",
		Hop: bundle.NewHop(bundle.HopConfig{Runtime: Name, Leaf: memory.New()}),
	}.withDefaults()
}

// fullConfig says everything that a configuration can.
func fullConfig() Config {
	c := podConfig()
	c.ServiceAccount, c.RuntimeClass, c.PriorityClass = "scans", "gvisor", "low"
	c.OwnKernel = true
	c.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"}
	c.Tolerations = []corev1.Toleration{{Key: "sandbox", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	c.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "worker"}}, TopologyKey: "kubernetes.io/hostname",
		}},
	}}
	c.ImagePullSecrets = []string{"pull-a", "pull-b"}
	c.Annotations = map[string]string{"example.org/team": "security"}
	c.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "worker-0", UID: "11111111-1111-1111-1111-111111111111"}
	return c
}

func TestThePodIsTheRFCsLineByLine(t *testing.T) {
	for name, config := range map[string]Config{"plain": podConfig(), "full": fullConfig()} {
		for _, network := range []bool{false, true} {
			golden := filepath.Join("testdata", name+map[bool]string{false: "-storage", true: "-egress"}[network]+".golden.yaml")
			spec := podSpec()
			spec.Network = network
			got, err := yaml.Marshal(podManifest(config, spec, digest, signed))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: the pod is\n%s\nwant\n%s", golden, got, want)
			}
		}
	}
}

// What a golden file shows a reader can overlook; these can't be.
func TestThePodHasTheRFCsFields(t *testing.T) {
	p := podManifest(podConfig(), podSpec(), digest, signed)
	c := p.Spec.Containers[0]
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"generateName", p.GenerateName, "batlehub-sbx-gitleaks-"},
		{"restartPolicy", p.Spec.RestartPolicy, corev1.RestartPolicyNever},
		{"activeDeadlineSeconds", *p.Spec.ActiveDeadlineSeconds, int64(420)},
		{"automountServiceAccountToken", *p.Spec.AutomountServiceAccountToken, false},
		{"enableServiceLinks", *p.Spec.EnableServiceLinks, false},
		{"runtimeClassName", p.Spec.RuntimeClassName, (*string)(nil)},
		{"network label", p.Labels["io.batlehub/network"], "storage"},
		{"containers", len(p.Spec.Containers), 1},
		{"init containers", len(p.Spec.InitContainers), 0},
		{"volumes", len(p.Spec.Volumes), 1},
		{"volume medium", p.Spec.Volumes[0].EmptyDir.Medium, corev1.StorageMediumMemory},
		{"volume size", p.Spec.Volumes[0].EmptyDir.SizeLimit.String(), "512Mi"},
		{"command", c.Command, []string{"batlehub-sandbox", "--in", signedGet, "--out", signedPut}},
		{"args", c.Args, []string(nil)},
		{"imagePullPolicy", c.ImagePullPolicy, corev1.PullIfNotPresent},
		{"env", c.Env, []corev1.EnvVar{{Name: "HOME", Value: "/work"}, {Name: "PATH", Value: "/usr/local/bin:/usr/bin:/bin"}}},
		{"envFrom", c.EnvFrom, []corev1.EnvFromSource(nil)},
		{"memory limit", c.Resources.Limits.Memory().String(), "2Gi"},
		{"memory request", c.Resources.Requests.Memory().String(), "2Gi"},
		{"cpu limit", c.Resources.Limits.Cpu().String(), "1"},
		{"cpu request", c.Resources.Requests.Cpu().String(), "250m"},
		{"readOnlyRootFilesystem", *c.SecurityContext.ReadOnlyRootFilesystem, true},
		{"stdin", c.Stdin || c.StdinOnce || c.TTY, false},
		{"ports", len(c.Ports), 0},
		{"only one writable mount", !c.VolumeMounts[0].ReadOnly && c.VolumeMounts[1].ReadOnly && c.VolumeMounts[2].ReadOnly && len(c.VolumeMounts) == 3, true},
	} {
		if !reflect.DeepEqual(f.got, f.want) {
			t.Errorf("%s is %v, want %v", f.name, f.got, f.want)
		}
	}
}

// Pod Security's own evaluator: restricted, at every version that it knows, by
// explicit fields.
func TestThePodSatisfiesTheRestrictedLevel(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	denied := func(p *corev1.Pod) string {
		level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &p.ObjectMeta, &p.Spec))
		if result.Allowed {
			return ""
		}
		return result.ForbiddenDetail()
	}
	for _, c := range []Config{podConfig(), fullConfig()} {
		if why := denied(podManifest(c, podSpec(), digest, signed)); why != "" {
			t.Errorf("the pod violates the restricted level: %s", why)
		}
	}
	// The evaluator is the real one: it sees each wall that is taken away.
	for name, breaking := range map[string]func(*corev1.Pod){
		"capabilities":             func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities = nil },
		"allowPrivilegeEscalation": func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"runAsNonRoot":             func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil },
		"seccompProfile":           func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil },
		"host namespaces":          func(p *corev1.Pod) { p.Spec.HostPID = true },
	} {
		p := podManifest(podConfig(), podSpec(), digest, signed)
		breaking(p)
		if denied(p) == "" {
			t.Errorf("without %s the pod satisfies the restricted level", name)
		}
	}
}

func TestAnyScannersNameMakesAPodsName(t *testing.T) {
	for scanner, want := range map[string]string{
		"gitleaks": "batlehub-sbx-gitleaks-", "a_b.c": "batlehub-sbx-a-b-c-", "a.-_b": "batlehub-sbx-a---b-",
		strings.Repeat("x", 63): "batlehub-sbx-" + strings.Repeat("x", 44) + "-",
	} {
		got := generateName(scanner)
		if got != want {
			t.Errorf("%s makes %s, want %s", scanner, got, want)
		}
		if faults := validation.IsDNS1123Label(got + "abcde"); len(faults) > 0 {
			t.Errorf("%s makes %s: %s", scanner, got, faults)
		}
	}
	spec := podSpec()
	spec.Label = wire.Label{Worker: "w_1.x", Job: strings.Repeat("j", 63), Scanner: "a_b", Attempt: 1}
	for name, value := range podManifest(podConfig(), spec, digest, signed).Labels {
		if faults := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(faults) > 0 {
			t.Errorf("label %s=%s: %s", name, value, faults)
		}
	}
}

// The manifest is a pure function: it shares nothing with what it was made from.
func TestAPodSharesNothingWithItsConfiguration(t *testing.T) {
	c := fullConfig()
	first := podManifest(c, podSpec(), digest, signed)
	first.Spec.NodeSelector["x"], first.Annotations["x"], first.Labels["x"] = "y", "y", "y"
	first.Spec.Tolerations[0].Key = "y"
	first.Spec.Affinity.PodAntiAffinity = nil
	if second := podManifest(c, podSpec(), digest, signed); !reflect.DeepEqual(second, podManifest(fullConfig(), podSpec(), digest, signed)) {
		t.Error("changing a pod changes the next one")
	}
}

func TestTimesAndSizesAreRoundedUp(t *testing.T) {
	spec := podSpec()
	spec.StartTimeout, spec.Timeout = 0, 1500*time.Millisecond
	spec.Bundle.Policy.MaxBytes = 1<<20 + 1
	p := podManifest(podConfig(), spec, digest, signed)
	if got := *p.Spec.ActiveDeadlineSeconds; got != 122 {
		t.Errorf("the deadline is %d s, want 122", got)
	}
	if got := p.Spec.Volumes[0].EmptyDir.SizeLimit.String(); got != "2Mi" {
		t.Errorf("the work directory has %s, want 2Mi", got)
	}
}
