package kubernetes

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What a quota is too small for is named with what is asked, used and allowed,
// and with what it has to be raised to.
func TestAQuotaThatIsExceededSaysByHowMuch(t *testing.T) {
	for _, c := range []struct {
		name, said   string
		kind         sandbox.Kind
		code         sandbox.Code
		detail, hint string
	}{
		{
			"one that is used up", "requested: limits.memory=2Gi, used: limits.memory=5Gi, limited: limits.memory=6Gi",
			sandbox.Crashed, sandbox.CodeHostRefused,
			"the ResourceQuota q is used up now: of its limits.memory 6Gi are 5Gi used, and the pod needs 2Gi",
			"try again when runs have ended, run less at a time, or raise in the ResourceQuota q limits.memory to 7Gi or more, or lower memory_limit_mb",
		},
		{
			"several resources", "requested: limits.cpu=1,pods=1, used: limits.cpu=3500m,pods=4, limited: limits.cpu=4,pods=4",
			sandbox.Crashed, sandbox.CodeHostRefused,
			"the ResourceQuota q is used up now: of its limits.cpu 4 are 3500m used, and the pod needs 1; of its pods 4 are 4 used, and the pod needs 1",
			"try again when runs have ended, run less at a time, or raise in the ResourceQuota q limits.cpu to 4500m or more and pods to 5 or more",
		},
		{
			"one below a pod", "requested: limits.memory=2Gi,pods=1, used: limits.memory=1Gi,pods=0, limited: limits.memory=2Gi,pods=0",
			sandbox.Refused, sandbox.CodeConfig,
			"the ResourceQuota q can never hold one such pod: its pods is 0, and the pod needs 1",
			"raise in the ResourceQuota q pods to 1 or more",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &sandbox.Error{Detail: "making a pod"}
			forbidden(e, `pods "x" is forbidden: exceeded quota: q, `+c.said)
			if e.Kind != c.kind || e.Code != c.code || e.Detail != c.detail || e.Hint != c.hint {
				t.Errorf("got %s (%s)\n%s\n%s\nwant %s (%s)\n%s\n%s", e.Kind, e.Code, e.Detail, e.Hint, c.kind, c.code, c.detail, c.hint)
			}
		})
	}
}

func TestWhatIsNoQuotasWordIsLeft(t *testing.T) {
	for _, other := range []string{"", "exceeded quota: q", "exceeded quota: q, requested: a, used: b, limited: c", "failed quota: q: must specify limits.cpu"} {
		if got := parseQuota(other); len(got) != 0 {
			t.Errorf("%q: %+v", other, got)
		}
	}
}
