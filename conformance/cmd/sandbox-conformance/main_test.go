package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

func TestAWrongCommandLineIsSaidSo(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--runtime", "bwrap", "--adapter", "x"},
		{"--no-such-flag"},
		{"--runtime", "none", "stray"},
		{"--merge"},
		{"--runtime", "none", "--slow", "0"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage {
			t.Errorf("%q exited %d", args, code)
		}
		if errs.Len() == 0 {
			t.Errorf("%q was refused without a word", args)
		}
	}
}

func TestWhatIsWrongWithACommandLineIsNamed(t *testing.T) {
	for want, args := range map[string][]string{
		`runtime "chroot" is none that this command makes: none or bwrap`: {"--runtime", "chroot"},
		"--focus: error parsing regexp":                                   {"--runtime", "none", "--focus", "("},
		`--focus "ZZ" matches no spec`:                                    {"--runtime", "none", "--focus", "ZZ"},
		`--focus "01" matches no spec`:                                    {"--runtime", "none", "--focus", "01"},
		"--runtime crun wants --program":                                  {"--runtime", "crun"},
		"and nothing else does":                                           {"--runtime", "bwrap", "--program", "runc"},
		"--slow wants a number above 0":                                   {"--runtime", "none", "--slow", "NaN"},
		`--expect-partial: "W01x" is no spec of the core`:                 {"--runtime", "bwrap", "--expect-partial", "W36,W01x"},
		`--expect-partial: "F01" is no spec of the core`:                  {"--runtime", "bwrap", "--expect-partial", "F01"},
		"exclude each other":                                              {"--runtime", "none", "--expect-no-walls", "--expect-partial", "W36"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%q exited %d: %s", args, code, errs.String())
		}
	}
}

func TestAFocusIsTakenForWhatItMatches(t *testing.T) {
	var errs bytes.Buffer
	f, err := parse([]string{"--runtime", "none", "--focus", "W|C0[1-9]"}, &errs)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"W01": true, "C09": true, "C10": false, "E01": false} {
		if f.wants(conformance.Spec{ID: id}) != want {
			t.Errorf("%s: want %v", id, want)
		}
	}
}

func TestATargetThatCantBeCheckedHereIsNotAFailedOne(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"--runtime", "crun", "--program", "no-such-program", "--out", t.TempDir()}, &out, &errs)
	if code != exitPartial || !strings.Contains(errs.String(), "not run: there is no program") {
		t.Errorf("exited %d: %s", code, errs.String())
	}
}

func TestListNamesEverySpec(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--list"}, &out, &errs); code != exitPass {
		t.Fatalf("exited %d: %s", code, errs.String())
	}
	for _, s := range conformance.Specs() {
		if !strings.Contains(out.String(), s.ID+" ") {
			t.Errorf("%s is not listed", s.ID)
		}
	}
}

func TestTheStatusSaysWhatTheVerdictIs(t *testing.T) {
	for want, r := range map[int]*report.Report{
		exitPass:    {Verdict: report.Pass},
		exitFail:    {Verdict: report.Fail},
		exitBroken:  {Verdict: report.Error},
		exitPartial: {Verdict: report.Partial},
	} {
		if got := status(r); got != want {
			t.Errorf("%s exits %d, want %d", r.Verdict, got, want)
		}
	}
	if got := status(&report.Report{Verdict: report.Fail, Control: &report.Control{Held: true}}); got != exitPass {
		t.Errorf("a negative control that held exits %d", got)
	}
	if got := status(&report.Report{Verdict: report.Fail, Control: &report.Control{}}); got != exitFail {
		t.Errorf("a negative control that did not hold exits %d", got)
	}
	if got := status(&report.Report{Verdict: report.Error, Control: &report.Control{Held: true}}); got != exitBroken {
		t.Errorf("a suite that broke exits %d", got)
	}
}

func TestAKnownPartOfTheCoreMayBeMissingAndNoOther(t *testing.T) {
	spec := func(id string, core bool, v report.Verdict) report.Spec {
		return report.Spec{ID: id, Core: core, Verdict: v}
	}
	for name, c := range map[string]struct {
		specs []report.Spec
		want  int
		said  string
	}{
		"just that":                 {[]report.Spec{spec("C35", true, report.NotClaimed), spec("W01", true, report.Pass)}, exitPass, ""},
		"another":                   {[]report.Spec{spec("C35", true, report.NotClaimed), spec("W01", true, report.NotClaimed)}, exitFail, "W01 is not claimed"},
		"no longer":                 {[]report.Spec{spec("C35", true, report.Pass), spec("W01", true, report.Pass)}, exitFail, "C35 passes"},
		"what is not of the core":   {[]report.Spec{spec("C35", true, report.NotClaimed), spec("W110", false, report.NotClaimed)}, exitPass, ""},
		"what this host can't show": {[]report.Spec{spec("C35", true, report.NotClaimed), spec("W01", true, report.NotRun)}, exitPartial, ""},
		"what was not looked at":    {[]report.Spec{spec("W01", true, report.Pass)}, exitPass, ""},
	} {
		var errs bytes.Buffer
		if got := partial(&report.Report{Specs: c.specs}, []string{"C35"}, &errs); got != c.want || !strings.Contains(errs.String(), c.said) || (c.said == "") != (errs.Len() == 0) {
			t.Errorf("%s: exits %d, want %d, and says %q", name, got, c.want, errs.String())
		}
	}
}

func TestSeveralReportsBecomeOnePage(t *testing.T) {
	dir := t.TempDir()
	var args []string
	for _, name := range []string{"one", "two"} {
		r := &report.Report{SpecVersion: "1", Target: report.Target{Name: name}, Specs: []report.Spec{{ID: "C01", Group: "C", Verdict: report.Pass}}}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".json")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), append([]string{"--out", dir, "--merge"}, args...), &out, &errs); code != exitPass {
		t.Fatalf("exited %d: %s", code, errs.String())
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "<th>one</th><th>two</th>") {
		t.Errorf("the page: %v", err)
	}
}

func TestTheScreenSaysWhatWasNotRunAndWhy(t *testing.T) {
	var out bytes.Buffer
	r := &report.Report{Verdict: report.Pass, Specs: []report.Spec{
		{ID: "C01", Group: "C", Verdict: report.Pass},
		{ID: "F01", Group: "F", Verdict: report.NotRun, Reason: "no scanner"},
		{ID: "F02", Group: "F", Verdict: report.NotRun, Reason: "no scanner"},
	}, Mutants: []report.Mutant{{Killed: true}, {}}}
	newScreen(&out, &flags{}).end(r, "somewhere")
	for _, want := range []string{"C contract   1 pass", "F findings   2 not run", "not run: F01 F02: no scanner", "mutants      1 of 2 killed", "verdict: pass"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the screen lacks %q:\n%s", want, out.String())
		}
	}
}
