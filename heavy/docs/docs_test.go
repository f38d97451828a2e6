// Package docs checks the documentation against the code.
package docs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages of requirements name a test for each; a name that no test has is a
// promise nobody keeps.
func TestEveryTestNamedInTheRequirementsExists(t *testing.T) {
	tests, specs := allTests(t), allSpecs(t)
	for _, page := range []string{"docs/requirements.md", "docs/requirements-crun.md"} {
		t.Run(page, func(t *testing.T) { everyNameExists(t, requirementRows(t, page), tests, specs) })
	}
}

func everyNameExists(t *testing.T, rows []requirement, tests, specs map[string]bool) {
	t.Helper()
	var shown int
	for _, row := range rows {
		names := namePattern.FindAllStringSubmatch(row.shown, -1)
		if n := len(anyTestPattern.FindAllString(row.shown, -1)); n != len(names) {
			t.Errorf("%s names %d tests, %d of them in a way that is read: %s", row.id, n, len(names), row.shown)
		}
		specNames := specPattern.FindAllString(row.shown, -1)
		for _, name := range names {
			if !tests[name[1]+"."+name[2]] {
				t.Errorf("%s names %s.%s, which is no test", row.id, name[1], name[2])
			}
		}
		for _, id := range specNames {
			if !specs[id] {
				t.Errorf("%s names the spec %s, which the suite does not have", row.id, id)
			}
		}
		waits := strings.HasPrefix(row.shown, "later: ") || strings.HasPrefix(row.shown, "not met: ")
		text := textPattern.FindStringSubmatch(row.shown)
		if text != nil {
			if _, err := os.Stat(filepath.Join(root, text[1])); err != nil {
				t.Errorf("%s names a page: %v", row.id, err)
			}
		}
		switch {
		case waits:
			t.Logf("%s: %s", row.id, row.shown)
		case strings.HasPrefix(row.shown, "text: ") && text != nil:
		case len(names)+len(specNames) == 0:
			t.Errorf("%s names no test and gives no reason: %q", row.id, row.shown)
		default:
			shown++
		}
	}
	t.Logf("%d of %d requirements are shown by a test", shown, len(rows))
}

// root is the workspace, seen from this package.
const root = "../.."

var (
	// namePattern is a test as the page names it: module/package.TestName.
	namePattern = regexp.MustCompile("`((?:wire|agent|runtime|worker|conformance|fuzz|heavy)[a-z0-9/-]*)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	// anyTestPattern is whatever looks like one.
	anyTestPattern = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]`)
	// specPattern is a spec of the conformance suite.
	specPattern = regexp.MustCompile(`\b[CWEPFO][0-9]{2,3}\b`)
	// textPattern is a page that shows what no test can.
	textPattern = regexp.MustCompile(`\btext: (docs/[a-z/-]+\.md)`)
	rowPattern  = regexp.MustCompile(`^\| ((?:R-[0-9X.]+|S|C)-[0-9]+) \| (.+) \| (.+) \|$`)
	testPattern = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

type requirement struct{ id, text, shown string }

func requirementRows(t *testing.T, page string) []requirement {
	t.Helper()
	f, err := os.Open(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []requirement
	seen := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := rowPattern.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if seen[m[1]] {
			t.Errorf("%s stands twice", m[1])
		}
		seen[m[1]] = true
		rows = append(rows, requirement{m[1], m[2], m[3]})
	}
	if len(rows) == 0 {
		t.Fatalf("no requirement found in %s", page)
	}
	return rows
}

// allTests returns every test of the workspace as package directory and name.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, module := range []string{"wire", "agent", "runtime", "worker", "conformance", "fuzz", "heavy"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			for _, m := range testPattern.FindAllSubmatch(b, -1) {
				all[dir+"."+string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// allSpecs asks the suite for its specs.
func allSpecs(t *testing.T) map[string]bool {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "run", "../../conformance/cmd/sandbox-conformance", "--list")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("listing the suite's specs: %v", err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all[fields[0]] = true
		}
	}
	return all
}

// A link within the documentation leads somewhere.
func TestEveryLinkInTheDocumentationLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	pages, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*.md").Output()
	if err != nil {
		t.Skipf("not run: no git checkout: %v", err)
	}
	for page := range strings.Lines(string(pages)) {
		page = strings.TrimSpace(page)
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(b, -1) {
			target := filepath.Join(root, filepath.Dir(page), string(m[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
