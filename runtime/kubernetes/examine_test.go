package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// quota has a server count memory as a ResourceQuota does, in its own words.
func (s *apiServer) quota(t *testing.T, used, limited string) {
	t.Helper()
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		p := &corev1.Pod{}
		if err := json.NewDecoder(r.Body).Decode(p); err != nil {
			t.Error(err)
		}
		asked, sum := p.Spec.Containers[0].Resources.Limits.Memory(), resource.MustParse(used)
		sum.Add(*asked)
		if sum.Cmp(resource.MustParse(limited)) <= 0 {
			say(w, http.StatusCreated, p)
			return true
		}
		return fault(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
			"pods %q is forbidden: exceeded quota: sandbox, requested: limits.memory=%s, used: limits.memory=%s, limited: limits.memory=%s", p.Name, asked, used, limited))
	}
}

func runOf(name string, memoryMB int64) sandbox.RunSpec {
	limits := wire.DefaultLimits()
	limits.MemoryMB = memoryMB
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.ExtractPolicy{MaxBytes: 64 << 20}}, Limits: limits,
		Timeout: time.Hour, StartTimeout: time.Minute, Image: digest, Label: wire.Label{Scanner: name},
	}
}

// A doctor looks at the pods that there will be, and tells a quota that no pod
// fits into from one that others use.
func TestADoctorHasTheConfiguredRunsPodsChecked(t *testing.T) {
	for _, c := range []struct {
		used, limited string
		runs          []sandbox.RunSpec
		code          sandbox.Code
		said, hint    string
	}{
		{"0", "1920Mi", []sandbox.RunSpec{runOf("a", 256)}, "", "a run's pod of 256Mi memory and 1 CPU:", ""},
		{"0", "1920Mi", []sandbox.RunSpec{runOf("a", 256), runOf("b", 512), runOf("c", 256)}, "", "256Mi memory and 1 CPU, and one of 512Mi memory and 1 CPU:", ""},
		{
			"0", "4000Mi",
			[]sandbox.RunSpec{runOf("a", 256), runOf("b", 6000)},
			sandbox.CodeConfig,
			"the ResourceQuota sandbox can never hold one such pod: its limits.memory is 4000Mi, and the pod needs 6000Mi", "lower memory_limit_mb",
		},
		{
			"1792Mi", "1920Mi",
			[]sandbox.RunSpec{runOf("a", 256)},
			sandbox.CodeHostRefused,
			"the ResourceQuota sandbox is used up now: of its limits.memory 1920Mi are 1792Mi used, and the pod needs 256Mi", "when runs have ended",
		},
		{"0", "1920Mi", nil, sandbox.CodeConfig, "the pod needs 2Gi", "raise in the ResourceQuota sandbox limits.memory to 2Gi or more, or lower memory_limit_mb"},
	} {
		b := newBed(t)
		b.server.quota(t, c.used, c.limited)
		list := Examine(t.Context(), b.config, c.runs...)
		a := list[len(list)-1]
		said, hint, code := a.Detail, "", sandbox.Code("")
		if a.Fault != nil {
			said, hint, code = a.Fault.Detail, a.Fault.Hint, a.Fault.Code
		}
		if a.Name != "pods" || code != c.code || !strings.Contains(said, c.said) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s of %s: %+v, %v", c.used, c.limited, a, a.Fault)
		}
	}
}

// The pod that is checked is the run's in all that a server looks at.
func TestADoctorsPodIsTheRunsOwn(t *testing.T) {
	b := newBed(t)
	var got corev1.Pod
	b.server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		say(w, http.StatusCreated, got)
		return true
	}
	run := runOf("tool", 777)
	run.Network = true
	Examine(t.Context(), b.config, run)
	run.Label.Worker, run.Label.Job, run.Label.Attempt = "w1", "doctor", 1
	want := podManifest(b.config, run, digest, urls{"https://sandbox.invalid/in", "https://sandbox.invalid/out"})
	a, err := json.Marshal(want)
	z, err2 := json.Marshal(got)
	if err != nil || err2 != nil || string(a) != string(z) {
		t.Errorf("got  %s\nwant %s", z, a)
	}
}
