package conformance_test

import (
	"bufio"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
)

const document = "../docs/conformance.md"

var marker = regexp.MustCompile(`<!-- (suite|waived): ([^>]*?) -->`)

// musts reads the document's rules: the text, the specs, the waiver's reason.
func musts(t *testing.T) (rules []string, specs map[string]string) {
	t.Helper()
	f, err := os.Open(document)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	specs = map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "- ") || !strings.Contains(line, "MUST") {
			continue
		}
		rules = append(rules, line)
		m := marker.FindStringSubmatch(line)
		switch {
		case m == nil:
			t.Errorf("a rule with neither a spec nor a waiver: %s", line)
		case m[1] == "waived" && len(m[2]) < 20:
			t.Errorf("a waiver without a reason: %s", line)
		case m[1] == "suite":
			for _, id := range strings.Fields(m[2]) {
				specs[id] = line
			}
		}
	}
	return rules, specs
}

func TestEveryMustHasASpecOrAWaiverWithItsReason(t *testing.T) {
	rules, specs := musts(t)
	if len(rules) < 50 {
		t.Fatalf("the document has %d rules, which are too few to be all", len(rules))
	}
	for id, rule := range specs {
		if _, ok := conformance.ByID(id); !ok {
			t.Errorf("there is no spec %s, which is to check: %s", id, rule)
		}
	}
}

func TestEverySpecIsAskedForByAMust(t *testing.T) {
	_, specs := musts(t)
	for _, s := range conformance.Specs() {
		if specs[s.ID] == "" {
			t.Errorf("%s (%s) is asked for by no rule of %s", s.ID, s.Title, document)
		}
	}
}

func TestEverySpecSaysInOneSentenceWhatMustHoldAndWhy(t *testing.T) {
	titles := map[string]string{}
	for _, s := range conformance.Specs() {
		if len(s.Why) < 15 || !strings.HasSuffix(s.Why, ".") {
			t.Errorf("%s: %q is no sentence", s.ID, s.Why)
		}
		if s.Title == "" || titles[s.Title] != "" {
			t.Errorf("%s has the title of %s", s.ID, titles[s.Title])
		}
		titles[s.Title] = s.ID
		if len(s.Needs) == 0 {
			t.Errorf("%s needs no capability", s.ID)
		}
	}
}

// The arrow of the design: the library is handed its targets, and knows the
// port, the wire and the bundle alone.
func TestTheLibraryImportsNoRuntimeAndNoAgent(t *testing.T) {
	for _, dir := range []string{".", "attack", "report", "adapter"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				path, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "github.com/batleforc/batlehub-sandbox/")
				if !ours {
					continue
				}
				if strings.HasPrefix(path, "agent") || strings.HasPrefix(path, "worker") || strings.HasPrefix(path, "runtime/") && path != "runtime/sandbox" && path != "runtime/bundle" && path != "runtime/storage" {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
	}
}
