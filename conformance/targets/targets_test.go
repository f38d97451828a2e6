package targets_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

// builder shares what the command has built already.
func builder(t *testing.T) *targets.Builder {
	t.Helper()
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	b, err := targets.NewBuilder(t.Context(), source, "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func options(t *testing.T, b *targets.Builder, ids ...string) conformance.Options {
	t.Helper()
	hostile, err := b.HostileBinary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Options{
		Programs: map[string]string{"hostile": hostile},
		Focus: func(s conformance.Spec) bool {
			for _, id := range ids {
				if s.ID == id {
					return true
				}
			}
			return false
		},
	}
}

func TestBwrapKeepsWhatTheSuiteLooksAtFirst(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("not run: bubblewrap is not installed")
	}
	b := builder(t)
	r := conformance.Run(t, *targets.Bwrap(t.Context(), b, ""), options(t, b, "C01", "W01", "W35", "W53", "W59", "W61", "W70", "W90", "E13", "E59", "P01", "P15"))
	if r.Counts[report.Pass] < 11 {
		t.Errorf("the counts are %v", r.Counts)
	}
}

// The negative control in small: the specs see.
func TestWithoutWallsTheWallsFail(t *testing.T) {
	b := builder(t)
	o := options(t, b, "C01", "W01", "W40", "W53", "W59", "W60", "W61", "W63", "W65", "W70", "W76", "W82", "W90", "E13")
	o.WithoutWalls = true
	session, err := conformance.Open(t.Context(), targets.None(""), o)
	if err != nil {
		t.Fatal(err)
	}
	r := session.Run(t.Context())
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if r.Control == nil || !r.Control.Held {
		t.Errorf("the negative control: %+v", r.Control)
	}
	failed := 0
	for _, s := range r.Specs {
		if s.Verdict == report.Fail {
			failed++
		}
	}
	if failed < 7 {
		t.Errorf("%d wall specs failed without walls", failed)
	}
}

func TestAMutantIsKilledByTheSpecThatNamesIt(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("not run: bubblewrap is not installed")
	}
	b := builder(t)
	target := targets.Bwrap(t.Context(), b, "")
	all := target.Mutants
	target.Mutants = nil
	for _, m := range all {
		if m.Killer == "W54" || m.Killer == "W60" {
			target.Mutants = append(target.Mutants, m)
		}
	}
	session, err := conformance.Open(t.Context(), target, options(t, b))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	session.RunMutants(t.Context(), nil)
	for _, m := range session.Report().Mutants {
		if !m.Killed {
			t.Errorf("%s lives: %s", m.Name, m.Reason)
		}
	}
	if len(target.Mutants) != 2 {
		t.Errorf("%d mutants were tried", len(target.Mutants))
	}
}

func TestThereAreAtLeastTenMutantsAndEachNamesASpec(t *testing.T) {
	mutants := targets.Bwrap(t.Context(), builder(t), "").Mutants
	names := map[string]bool{}
	for _, m := range mutants {
		if _, ok := conformance.ByID(m.Killer); !ok || names[m.Name] {
			t.Errorf("%q names %q, or is there twice", m.Name, m.Killer)
		}
		names[m.Name] = true
	}
	if len(mutants) < 10 {
		t.Errorf("%d mutants", len(mutants))
	}
}

// The sources that mutants are made from change; an edit that no longer fits
// is noticed without building anything.
func TestEveryEditOfTheAgentStillFitsItsSource(t *testing.T) {
	b := builder(t)
	for _, e := range targets.Edits(b) {
		if err := b.Fits(e); err != nil {
			t.Error(err)
		}
	}
}
