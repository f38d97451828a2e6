package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// sample has every verdict, a mutant, a negative control, and evidence that
// would break a page or a table which did not escape it.
func sample() *report.Report {
	evil := `<script>alert(1)</script> | & "quoted" ` + "`code`\nnext line"
	spec := func(id string, v report.Verdict, reason string) report.Spec {
		return report.Spec{
			ID: id, Group: id[:1], Title: "title of " + id, Why: "Because.", Core: true, Verdict: v, Reason: reason,
			Evidence: []report.Evidence{{Run: "run", Argv: []string{"a", evil}, Stderr: evil, Seconds: 0.5}}, Seconds: 1.25,
		}
	}
	r := &report.Report{
		SpecVersion: report.SpecVersion, Started: time.Unix(0, 0).UTC(), Seconds: 12.5,
		Target: report.Target{Name: "bwrap", Capabilities: []string{"results"}, Versions: map[string]string{"bubblewrap": "0.8.0"}, Command: "sandbox-conformance --runtime bwrap"},
		Host:   report.Host{OS: "linux", Arch: "amd64", Kernel: "6.1", UID: 0, CPUs: 2},
		Specs: []report.Spec{
			spec("C01", report.Pass, ""), spec("W100", report.Fail, evil), spec("P01", report.NotClaimed, "no probe"),
			spec("F01", report.NotRun, "no scanner"), spec("E01", report.Error, "the suite broke"),
		},
		Mutants: []report.Mutant{{Name: "no filter", Killer: "W01", Killed: true, Reason: evil, Seconds: 2}},
		Control: &report.Control{Held: false, Blind: []string{"W02"}, Wrong: []string{}},
	}
	r.Judge()
	return r
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(report.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := report.Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bwrap")
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAReportFitsItsSchema(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, written(t), "report.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(document); err != nil {
		t.Error(err)
	}
}

func TestTheSchemaRefusesWhatIsNoReport(t *testing.T) {
	for name, change := range map[string]func(m map[string]any){
		"a verdict that there is not":  func(m map[string]any) { m["verdict"] = "maybe" },
		"a field too many":             func(m map[string]any) { m["extra"] = 1 },
		"no counts":                    func(m map[string]any) { delete(m, "counts") },
		"a failure without its reason": func(m map[string]any) { delete(m["specs"].([]any)[1].(map[string]any), "reason") },
		"an id of no group":            func(m map[string]any) { m["specs"].([]any)[0].(map[string]any)["id"] = "X1" },
	} {
		b, err := json.Marshal(sample())
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		if schema(t).Validate(m) == nil {
			t.Errorf("the schema takes %s", name)
		}
	}
}

func TestTheVerdictIsTheWorstOfWhatMatters(t *testing.T) {
	core := func(v report.Verdict) report.Spec { return report.Spec{ID: "C01", Core: true, Verdict: v} }
	other := func(v report.Verdict) report.Spec { return report.Spec{ID: "F01", Verdict: v} }
	for _, c := range []struct {
		name    string
		specs   []report.Spec
		mutants []report.Mutant
		want    report.Verdict
	}{
		{"all pass", []report.Spec{core(report.Pass)}, nil, report.Pass},
		{"one fails", []report.Spec{core(report.Pass), core(report.Fail)}, nil, report.Fail},
		{"the core is not claimed", []report.Spec{core(report.Pass), core(report.NotClaimed)}, nil, report.Partial},
		{"the core is not run", []report.Spec{core(report.Pass), core(report.NotRun)}, nil, report.Partial},
		{"something else is not run", []report.Spec{core(report.Pass), other(report.NotRun)}, nil, report.Pass},
		{"nothing passed", []report.Spec{core(report.NotRun)}, nil, report.Fail},
		{"nothing was looked at", nil, nil, report.Fail},
		{"the suite broke", []report.Spec{core(report.Pass), core(report.Error), core(report.Fail)}, nil, report.Error},
		{"a mutant lives", []report.Spec{core(report.Pass)}, []report.Mutant{{}}, report.Error},
	} {
		r := report.Report{Specs: c.specs, Mutants: c.mutants}
		if r.Judge(); r.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, r.Verdict, c.want)
		}
	}
}

func TestThePageNeedsNothingElseAndEscapesItsEvidence(t *testing.T) {
	page := string(read(t, written(t), "report.html"))
	if strings.Contains(page, "<script") || regexp.MustCompile(`(src|href)="(https?:)?//`).MatchString(page) {
		t.Error("the page has a script or loads something")
	}
	for _, want := range []string{"W100", "bubblewrap 0.8.0", "sandbox-conformance --runtime bwrap", "no filter", "not claimed", "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestOnePageShowsSeveralTargets(t *testing.T) {
	other := sample()
	other.Target.Name = "none"
	other.Specs = other.Specs[:1]
	page, err := report.HTML([]*report.Report{sample(), other})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("<th>bwrap</th><th>none</th>")) || bytes.Count(page, []byte(`<tr id="`)) != 5 {
		t.Error("the page does not have both targets over five specs")
	}
}

func TestJUnitHasACaseForEachSpec(t *testing.T) {
	var suites struct {
		Suites []struct {
			Tests, Failures, Errors int `xml:",attr"`
			Cases                   []struct {
				Name    string    `xml:"name,attr"`
				Skipped *struct{} `xml:"skipped"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(read(t, written(t), "junit.xml"), &suites); err != nil {
		t.Fatal(err)
	}
	if len(suites.Suites) != 1 || len(suites.Suites[0].Cases) != 5 {
		t.Fatalf("the report has %+v", suites)
	}
	got := map[string]string{}
	for _, c := range suites.Suites[0].Cases {
		switch {
		case c.Failure != nil:
			got[c.Name] = "failure"
		case c.Error != nil:
			got[c.Name] = "error"
		case c.Skipped != nil:
			got[c.Name] = "skipped"
		default:
			got[c.Name] = "passed"
		}
	}
	for name, want := range map[string]string{"C01": "passed", "W100": "failure", "P01": "skipped", "F01": "skipped", "E01": "error"} {
		found := false
		for full, state := range got {
			if strings.Contains(full, name+" ") {
				found = true
				if state != want {
					t.Errorf("%s is %s, want %s", name, state, want)
				}
			}
		}
		if !found {
			t.Errorf("%s is not in the report: %v", name, got)
		}
	}
}

func TestTheSummaryNamesWhatDidNotPass(t *testing.T) {
	summary := string(read(t, written(t), "summary.md"))
	for _, want := range []string{"| W100 |", "no scanner", "no probe", "| no filter | W01 | yes |", "Reproduce: `sandbox-conformance --runtime bwrap`"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q", want)
		}
	}
	if strings.Contains(summary, "<script>") {
		t.Error("the summary has the evidence's markup")
	}
}

func TestTheBadgeSaysWhatTheReportSays(t *testing.T) {
	var badge report.Badge
	if err := json.Unmarshal(read(t, written(t), "badge.json"), &badge); err != nil {
		t.Fatal(err)
	}
	if badge.SchemaVersion != 1 || badge.Message != "error (1/5)" || !strings.Contains(badge.Label, "bwrap") {
		t.Errorf("the badge is %+v", badge)
	}
}

func TestAReportIsReadBackAsItWasWritten(t *testing.T) {
	again, err := report.Read(filepath.Join(written(t), "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(sample())
	got, _ := json.Marshal(again)
	if !bytes.Equal(got, want) {
		t.Errorf("read back as %s", got)
	}
}
