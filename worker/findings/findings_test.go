package findings

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func status(n int) *int { return &n }

func parse(t *testing.T, format string, code int, stdout string) (Set, error) {
	t.Helper()
	f, err := Find(format)
	if err != nil {
		t.Fatal(err)
	}
	return f.Parse("s", Output{Status: status(code), Stdout: []byte(stdout), StderrTail: "first\nlast words\n"})
}

func mustParse(t *testing.T, format string, code int, stdout string) Set {
	t.Helper()
	s, err := parse(t, format, code, stdout)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGitleaksLeaksAreFindingsWithTheirPlace(t *testing.T) {
	s := mustParse(t, "gitleaks", 3, `[{"RuleID":"b","Description":"two","File":"/work/artifact/z.txt","StartLine":2},
		{"RuleID":"a","Description":"one","Match":"key = abc","File":"/work/artifact/package/x.js","StartLine":7,"Secret":"abc"}]`)
	want := Finding{Scanner: "s", Rule: "a", Severity: High, Message: "one", File: "package/x.js", Line: 7, Evidence: "key = abc"}
	if s.Total != 2 || s.Findings[0] != want {
		t.Errorf("%+v, want first %+v", s, want)
	}
	if s := mustParse(t, "gitleaks", 0, "[]\n"); s.Total != 0 {
		t.Errorf("clean: %+v", s)
	}
}

func TestTrivyReportsVulnerabilitiesSecretsMisconfigurationsAndLicenses(t *testing.T) {
	s := mustParse(t, "trivy", 0, `{"SchemaVersion":2,"Results":[{"Target":"package-lock.json",
		"Vulnerabilities":[{"VulnerabilityID":"CVE-1","PkgName":"p","InstalledVersion":"1.0","FixedVersion":"1.1","Severity":"CRITICAL","Title":"bad"}],
		"Secrets":[{"RuleID":"r","Severity":"HIGH","Title":"secret","Match":"x=***","StartLine":3}],
		"Misconfigurations":[{"ID":"m","Severity":"LOW","Title":"t","Message":"msg"}],
		"Licenses":[{"Severity":"UNKNOWN","Name":"GPL-3.0","PkgName":"p"}]}]}`)
	got := fmt.Sprintf("%+v", s.Findings)
	for _, want := range []string{"CVE-1 Severity:critical Message:bad, fixed in 1.1", "Package:p@1.0", "Rule:r Severity:high", "Rule:m Severity:low Message:msg", "Severity:unknown Message:license GPL-3.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if s.Total != 4 || s.Findings[0].Severity != Critical {
		t.Errorf("%d findings, first %+v", s.Total, s.Findings[0])
	}
	if s := mustParse(t, "trivy", 0, `{"SchemaVersion":2}`); s.Total != 0 {
		t.Errorf("clean: %+v", s)
	}
}

func TestGuarddogIsReadInBothShapes(t *testing.T) {
	nested := mustParse(t, "guarddog", 1, `{"dependency":"x","result":{"issues":2,"errors":{"rules-all":"failed"},"results":{
		"npm-install-script":[{"location":"/work/artifact/package.json:3","code":"curl","message":"runs"}],"npm-obfuscation":[],"empty-information":"no description","typosquatting":{}}}}`)
	if nested.Total != 2 || nested.Findings[0].Rule != "npm-install-script" || nested.Findings[0].Severity != High ||
		nested.Findings[0].File != "package.json" || nested.Findings[0].Line != 3 || nested.Findings[1].Message != "no description" {
		t.Errorf("%+v", nested)
	}
	if len(nested.Notes) != 1 || !strings.Contains(nested.Notes[0], "rules-all") {
		t.Errorf("notes %q", nested.Notes)
	}
	if flat := mustParse(t, "guarddog", 0, `{"issues":0,"errors":{},"results":{}}`); flat.Total != 0 {
		t.Errorf("flat: %+v", flat)
	}
	if list := mustParse(t, "guarddog", 0, `[{"result":{"results":{"shady-links":[{"message":"m"}]}}}]`); list.Total != 1 {
		t.Errorf("list: %+v", list)
	}
}

func TestPostmortemReportsItsFindingsAndItsDoubts(t *testing.T) {
	s := mustParse(t, "postmortem", 1, `{"schema_version":3,"root":"/work","diagnostics":[{"ecosystem":"go","kind":"flat_graph","message":"no edges"}],
		"findings":[{"dependency":"x","severity":"high","category":"install_hook","detail":"preinstall runs curl","location":"/work/node_modules/x/package.json","evidence":"curl | sh"}]}`)
	want := Finding{Scanner: "s", Rule: "install_hook", Severity: High, Message: "preinstall runs curl", File: "node_modules/x/package.json", Package: "x", Evidence: "curl | sh"}
	if s.Total != 1 || s.Findings[0] != want || len(s.Notes) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestATimelineIsReadAtTheScannedVersionOnly(t *testing.T) {
	history := `{"releases":[{"version":"1.0.0","events":[{"kind":"first_release"}]},
		{"version":"1.1.0","events":[{"kind":"publisher_changed","detail":"a to b"},{"kind":"deprecated"}]}]}`
	at := func(version string) Set {
		s, err := Timeline("s", version, Output{Status: status(0), Stdout: []byte(history)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := at("1.0.0"); s.Total != 0 {
		t.Errorf("1.0.0: %+v", s)
	}
	if s := at("1.1.0"); s.Total != 1 || s.Findings[0].Rule != "publisher_changed" || s.Findings[0].Message != "a to b" {
		t.Errorf("1.1.0: %+v", s)
	}
	if s := at("9.9.9"); s.Total != 1 || s.Findings[0].Rule != "unpublished" || s.Findings[0].Severity != High {
		t.Errorf("9.9.9: %+v", s)
	}
	if _, err := Timeline("s", "1", Output{Status: status(1)}); !errors.Is(err, ErrOutput) {
		t.Errorf("status 1: %v", err)
	}
}

func TestGenericScannersAnswerByStatusOrByLines(t *testing.T) {
	if s := mustParse(t, "status", 1, "eicar found\nmore\n"); s.Total != 1 || s.Findings[0].Message != "eicar found" {
		t.Errorf("status: %+v", s)
	}
	if s := mustParse(t, "status", 0, "all well"); s.Total != 0 {
		t.Errorf("status 0: %+v", s)
	}
	if s := mustParse(t, "lines", 0, "b\n\na\n"); s.Total != 2 || s.Findings[0].Message != "a" {
		t.Errorf("lines: %+v", s)
	}
}

// Each of these is something other than an answer, and none of them may be
// taken for a clean one.
func TestWhatIsNoAnswerIsAnErrorAndNeverAnEmptySet(t *testing.T) {
	for _, c := range []struct {
		format string
		status int
		stdout string
	}{
		{"gitleaks", 0, ""},
		{"gitleaks", 0, "null"},
		{"gitleaks", 0, "{}"},
		{"gitleaks", 0, "[]x"},
		{"gitleaks", 0, `[{"RuleID":1}]`},
		{"gitleaks", 1, "[]"},
		{"gitleaks", 126, ""},
		{"gitleaks", 3, "[]"},
		{"gitleaks", 0, `[{"RuleID":"a"}]`},
		{"trivy", 1, `{"SchemaVersion":2}`},
		{"trivy", 0, ""},
		{"trivy", 0, "{}"},
		{"trivy", 0, "[]"},
		{"guarddog", 0, `{"ok":true}`},
		{"guarddog", 0, "[]"},
		{"guarddog", 2, `{"results":{}}`},
		{"guarddog", 0, ""},
		{"postmortem", 0, `{}`},
		{"postmortem", 2, `{"schema_version":3,"findings":[]}`},
		{"postmortem", 0, `{"schema_version":3}`},
		{"lines", 1, "\n"},
		{"lines", 2, "x"},
		{"status", 2, ""},
		{"status", 127, ""},
		{"gitleaks", 0, strings.Repeat("[", 100_000)},
	} {
		s, err := parse(t, c.format, c.status, c.stdout)
		if !errors.Is(err, ErrOutput) || s.Total != 0 || len(s.Findings) != 0 {
			t.Errorf("%s %d %.40q: %+v, %v", c.format, c.status, c.stdout, s, err)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `"last words"`) {
			t.Errorf("%s %d: %q is not one line with the end of stderr", c.format, c.status, err)
		}
	}
	for _, f := range Formats {
		if _, err := f.Parse("s", Output{Stdout: []byte("[]")}); !errors.Is(err, ErrOutput) {
			t.Errorf("%s, killed: %v", f.Name, err)
		}
	}
}

func TestWhatAScannerPrintsIsBoundedAndInOneLine(t *testing.T) {
	var b strings.Builder
	for i := range CountCap + 5 {
		fmt.Fprintf(&b, "%05d \x1b[2Jx\r %s\xff\n", i, strings.Repeat("é", 10))
	}
	s := mustParse(t, "lines", 0, b.String())
	if s.Total != CountCap+5 || len(s.Findings) != CountCap {
		t.Errorf("%d kept of %d", len(s.Findings), s.Total)
	}
	if m := s.Findings[0].Message; strings.ContainsAny(m, "\r\n") || !utf8.ValidString(m) {
		t.Errorf("message %q", m)
	}
	long := mustParse(t, "lines", 0, strings.Repeat("é", TextCap))
	if m := long.Findings[0].Message; len(m) > TextCap || !strings.HasSuffix(m, "é…") {
		t.Errorf("%d bytes, ending %q", len(m), m[len(m)-8:])
	}
}

func FuzzParse(f *testing.F) {
	f.Add(0, []byte(`[{"RuleID":"a","StartLine":-1}]`))
	f.Add(1, []byte(`{"result":{"results":{"x":[{"location":"a:1:2"}],"y":{}}}}`))
	f.Add(3, []byte(`[{"RuleID":"\u0000"}]`))
	f.Add(0, []byte(`{"SchemaVersion":2,"Results":[{"Vulnerabilities":[{}]}]}`))
	f.Fuzz(func(t *testing.T, code int, stdout []byte) {
		for _, format := range Formats {
			s, err := format.Parse("s", Output{Status: &code, Stdout: stdout})
			if err != nil && (s.Total != 0 || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: %+v, %q", format.Name, s, err)
			}
			for _, found := range s.Findings {
				if len(found.Message) > TextCap || found.Line < 0 {
					t.Errorf("%s: %+v", format.Name, found)
				}
			}
		}
	})
}
