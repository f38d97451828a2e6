package conformance_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox/sandboxtest"
)

// hostile is the hostile program, built once for all tests.
var hostile = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "conformance-test-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "hostile")
	cmd := exec.Command("go", "build", "-o", name, "./internal/hostile")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return name, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if name, err := hostile(); err == nil {
		_ = os.RemoveAll(filepath.Dir(name))
	}
	os.Exit(code)
}

func options(t *testing.T, ids ...string) conformance.Options {
	t.Helper()
	name, err := hostile()
	if err != nil {
		t.Fatalf("building the hostile program: %v", err)
	}
	bounds := conformance.DefaultBounds()
	bounds.Settle /= 20
	return conformance.Options{
		Programs: map[string]string{"hostile": name}, Bounds: bounds,
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

// fake is a target over a fake runtime that claims the core and does what on
// says for each run.
func fake(on func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error)) *conformance.Target {
	return &conformance.Target{
		Name: "fake", Capabilities: conformance.Core(), Versions: map[string]string{}, Scanner: "fake",
		New: func(context.Context, conformance.Setup) (sandbox.Runtime, error) {
			r := sandboxtest.New("fake")
			r.OnRun = on
			return r, nil
		},
		Program: func(_ conformance.Setup, name string) string { return "/usr/bin/" + name },
	}
}

// check runs some specs against a target and returns their verdicts by id.
func check(t *testing.T, target *conformance.Target, o conformance.Options) (*report.Report, map[string]report.Spec) {
	t.Helper()
	session, err := conformance.Open(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	r := session.Run(t.Context())
	if err := session.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	byID := map[string]report.Spec{}
	for _, s := range r.Specs {
		byID[s.ID] = s
	}
	return r, byID
}

func TestATargetThatCanNotBeMadeFailsAndDoesNotSkip(t *testing.T) {
	target := fake(nil)
	target.New = func(context.Context, conformance.Setup) (sandbox.Runtime, error) {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeNoEngine, Runtime: "fake", Detail: "no engine"}
	}
	r, specs := check(t, target, options(t, "C01", "W01", "E01"))
	for id, s := range specs {
		if s.Verdict != report.Fail || !strings.Contains(s.Reason, "no engine") {
			t.Errorf("%s is %s: %s", id, s.Verdict, s.Reason)
		}
	}
	if r.Verdict != report.Fail || len(specs) != 3 {
		t.Errorf("the verdict is %s over %d specs", r.Verdict, len(specs))
	}
}

func TestARuntimeThatRefusesEveryRunFails(t *testing.T) {
	refuse := func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig}
	}
	_, specs := check(t, fake(refuse), options(t, "C01", "W53", "W70", "E13"))
	for id, s := range specs {
		if s.Verdict != report.Fail {
			t.Errorf("%s is %s: %s", id, s.Verdict, s.Reason)
		}
		if len(s.Evidence) == 0 || s.Evidence[0].Error == "" {
			t.Errorf("%s has no evidence of the refusal", id)
		}
	}
}

func TestARuntimeThatAnswersAnythingFailsTheWalls(t *testing.T) {
	yes := func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		return sandboxtest.Exited(0, []byte("all is well\n")), nil
	}
	_, specs := check(t, fake(yes), options(t, "C01", "W01", "W53", "W90", "E13", "C21", "C30", "C31"))
	for id, s := range specs {
		if s.Verdict != report.Fail {
			t.Errorf("%s is %s: %s", id, s.Verdict, s.Reason)
		}
	}
}

// A kernel that can't scope sockets is no fault of the target's, and leaves the
// core unchecked; one that can is no excuse.
func TestASocketInReachIsJudgedByWhatTheKernelCanDo(t *testing.T) {
	for said, want := range map[string]report.Verdict{
		`"achieved":true,"values":{"landlock":["5"]}`: report.NotRun,
		`"achieved":true,"values":{"landlock":["6"]}`: report.Fail,
		`"achieved":true`: report.Fail,
		`"achieved":false,"values":{"landlock":["0"]}`: report.Pass,
	} {
		target := fake(func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
			calls := `,"calls":[{"name":"connect","errno":"ECONNREFUSED"}],"from":1,"until":1000000000}`
			return sandboxtest.Exited(0, []byte(`{"verb":"abstract",`+said+calls)), nil
		})
		target.Capabilities = append(target.Capabilities, conformance.Network)
		r, specs := check(t, target, options(t, "C26", "W82", "W83"))
		for _, id := range []string{"W82", "W83"} {
			if s := specs[id]; s.Verdict != want || want == report.NotRun && (!strings.Contains(s.Reason, "Landlock") || r.Verdict != report.Partial) {
				t.Errorf("%s: %s is %s (%s): %s", said, id, s.Verdict, r.Verdict, s.Reason)
			}
		}
	}
}

func TestACoreThatIsNotClaimedMakesTheVerdictPartial(t *testing.T) {
	target := fake(nil)
	target.Capabilities = []conformance.Capability{conformance.Results, conformance.Timeouts, conformance.Sweep}
	r, specs := check(t, target, options(t, "C26", "C29", "W01"))
	if specs["W01"].Verdict != report.NotClaimed || !strings.Contains(specs["W01"].Reason, "walls") {
		t.Errorf("W01 is %s: %s", specs["W01"].Verdict, specs["W01"].Reason)
	}
	if r.Verdict != report.Partial {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

func TestWhatIsNotOfTheCoreMayBeLeftOut(t *testing.T) {
	r, specs := check(t, fake(nil), options(t, "C26", "C29", "P01", "W106"))
	if specs["P01"].Verdict != report.NotClaimed || specs["W106"].Verdict != report.NotClaimed {
		t.Errorf("P01 is %s, W106 is %s", specs["P01"].Verdict, specs["W106"].Verdict)
	}
	if r.Verdict != report.Pass {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

func TestWhatIsLeftBehindFailsTheSpecThatLeftIt(t *testing.T) {
	var left []string
	target := fake(nil)
	target.Left = func(conformance.Setup) ([]string, error) { return left, nil }
	make := target.New
	target.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		r, err := make(ctx, s)
		r.(*sandboxtest.Runtime).OnSweep = func(context.Context, sandbox.SweepPolicy) (sandbox.SweepReport, error) {
			left = append(left, "run directory 7")
			return sandbox.SweepReport{}, nil
		}
		return r, err
	}
	_, specs := check(t, target, options(t, "C26", "C29"))
	if s := specs["C29"]; s.Verdict != report.Fail || !strings.Contains(s.Reason, "run directory 7") {
		t.Errorf("C29 is %s: %s", s.Verdict, s.Reason)
	}
	if s := specs["C26"]; s.Verdict != report.Pass {
		t.Errorf("C26 is %s: %s", s.Verdict, s.Reason)
	}
}

func TestASuiteThatBreaksIsAnErrorAndNoVerdictOnTheTarget(t *testing.T) {
	target := fake(nil)
	target.Program = func(conformance.Setup, string) string { panic("a fault of the suite's") }
	r, specs := check(t, target, options(t, "C01"))
	if s := specs["C01"]; s.Verdict != report.Error || !strings.Contains(s.Reason, "a fault of the suite's") {
		t.Errorf("C01 is %s: %s", s.Verdict, s.Reason)
	}
	if r.Verdict != report.Error {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

func TestAMutantThatIsDeadDoesNotCountAsKilled(t *testing.T) {
	target := fake(func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		return sandboxtest.Exited(0, []byte("no hello")), nil
	})
	target.Mutants = []conformance.Mutant{{Name: "dead", Killer: "W01", Make: func(context.Context) (*conformance.Target, error) { return target, nil }}}
	session, err := conformance.Open(t.Context(), target, options(t, "W01"))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	session.RunMutants(t.Context(), nil)
	r := session.Report()
	if len(r.Mutants) != 1 || r.Mutants[0].Killed || !strings.Contains(r.Mutants[0].Reason, "does not work at all") {
		t.Errorf("the mutants are %+v", r.Mutants)
	}
}

func TestRunChecksInAPlainGoTest(t *testing.T) {
	out := t.TempDir()
	o := options(t, "C19", "C26", "C29")
	o.Out = out
	r := conformance.Run(t, *fake(nil), o)
	if r.Counts[report.Pass] != 3 {
		t.Errorf("the counts are %v", r.Counts)
	}
	again, err := report.Read(filepath.Join(out, "fake", "report.json"))
	if err != nil || again.Verdict != report.Pass {
		t.Errorf("the report that was written: %v, %v", again, err)
	}
}

func TestWhatTheSuitePlantedIsGoneAfterwards(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	check(t, fake(nil), options(t, "C26"))
	entries, err := os.ReadDir(os.TempDir())
	if err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", entries, err)
	}
}
