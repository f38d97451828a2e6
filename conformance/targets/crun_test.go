package targets_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

// crun is a target over a program that there is here, or the test is skipped.
func crun(t *testing.T, b *targets.Builder, program string) *conformance.Target {
	t.Helper()
	target, err := targets.Crun(t.Context(), b, program, "")
	if errors.Is(err, targets.ErrNotRun) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestAProgramKeepsWhatTheSuiteLooksAtFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: asked to be short")
	}
	for _, program := range []string{"crun", "runc"} {
		t.Run(program, func(t *testing.T) {
			b := builder(t)
			target := crun(t, b, program)
			all := target.Mutants
			target.Mutants = nil
			for _, m := range all {
				if m.Killer == "W54" || m.Killer == "W106" {
					target.Mutants = append(target.Mutants, m)
				}
			}
			session, err := conformance.Open(t.Context(), target, options(t, b, "C01", "C18", "W54", "W106", "W110", "W115", "W116", "P01", "P14", "O04", "O07"))
			if err != nil {
				t.Fatal(err)
			}
			session.Run(t.Context())
			session.RunMutants(t.Context(), nil)
			r := session.Report()
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if r.Counts[report.Pass] != 11 {
				t.Errorf("the counts are %v", r.Counts)
			}
			for _, s := range r.Specs {
				if s.Verdict != report.Pass {
					t.Errorf("%s: %s", s.ID, s.Reason)
				}
			}
			for _, m := range r.Mutants {
				if !m.Killed {
					t.Errorf("%s lives: %s", m.Name, m.Reason)
				}
			}
		})
	}
}

func TestEveryProgramNamesItsMutantsAndTheirKillers(t *testing.T) {
	for _, target := range targets.CrunMutants(builder(t)) {
		names := map[string]bool{}
		for _, m := range target.Mutants {
			if _, ok := conformance.ByID(m.Killer); !ok || names[m.Name] {
				t.Errorf("%s: %q names %q, or is there twice", target.Name, m.Name, m.Killer)
			}
			if reason, without := target.Without[m.Killer]; without {
				t.Errorf("%s: %q names %s, which the target does without: %s", target.Name, m.Name, m.Killer, reason)
			}
			names[m.Name] = true
		}
		if least := map[string]int{"crun": 28, "runc": 28, "runsc": 18}[target.Name]; len(target.Mutants) < least {
			t.Errorf("%s has %d mutants, want %d at least", target.Name, len(target.Mutants), least)
		}
	}
}

func TestASpecThatATargetDoesWithoutIsSaidWithItsReason(t *testing.T) {
	b := builder(t)
	target := targets.None("")
	target.Without = map[string]string{"C01": "it brings nothing back", "W01": "it has no filter"}
	session, err := conformance.Open(t.Context(), target, options(t, b, "C01", "C02", "W01"))
	if err != nil {
		t.Fatal(err)
	}
	r := session.Run(t.Context())
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if s := r.Specs[0]; s.Verdict != report.NotClaimed || s.Reason != "it brings nothing back" || !s.Core {
		t.Errorf("got %+v", s)
	}
	if s := r.Specs[2]; s.Verdict != report.NotClaimed || s.Reason == "it has no filter" {
		t.Errorf("a capability that is not claimed comes first: %+v", s)
	}
	if r.Verdict != report.Partial {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

func TestAProgramThatIsNotThereOrIsNoneIsSaidSo(t *testing.T) {
	if _, err := targets.Crun(t.Context(), builder(t), "no-such-program", ""); !errors.Is(err, targets.ErrNotRun) {
		t.Errorf("got %v", err)
	}
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("not run: there is no cat here")
	}
	if _, err := targets.Crun(t.Context(), builder(t), path, ""); err == nil || errors.Is(err, targets.ErrNotRun) {
		t.Errorf("cat: %v", err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if _, err := targets.Crun(t.Context(), builder(t), "crun", ""); !errors.Is(err, targets.ErrNotRun) {
			t.Errorf("crun without cgroup v2 alone: %v", err)
		}
	}
}
