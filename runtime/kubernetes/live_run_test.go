package kubernetes

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestLiveARunBringsItsAnswerBack(t *testing.T) {
	l := newLive(t, options{})
	if got := l.must("env"); got != "HOME=/work\nPATH=/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("the scanner's environment is %q", got)
	}
}

func TestLiveTheProbePasses(t *testing.T) {
	l := newLive(t, options{})
	report, err := l.Probe(t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v, %s", report.Err(), err, report.Hint)
	}
	for _, v := range report.Verdicts {
		t.Logf("%s %s %s", v.ID, v.Outcome, v.Detail)
	}
}
