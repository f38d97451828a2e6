package seccomp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

func TestTheDocumentShowsTheTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "seccomp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), seccomp.TableBegin+"\n")
	table, _, closed := strings.Cut(rest, seccomp.TableEnd)
	if !ok || !closed || table != seccomp.Markdown() {
		t.Error("docs/seccomp.md does not show the table: run GOWORK=off go -C tools/seccompgen run . -doc ../../docs/seccomp.md")
	}
}

func TestTheRenderedTableNamesEveryCallAndValue(t *testing.T) {
	table := seccomp.Markdown()
	for _, r := range seccomp.Rules() {
		for _, c := range r.Calls {
			if !strings.Contains(table, "`"+c+"`") {
				t.Errorf("%s is not in the table", c)
			}
		}
		if r.When == nil {
			continue
		}
		for _, v := range r.When.Values {
			if !strings.Contains(table, strings.ReplaceAll(v.Name, "|", `\|`)) {
				t.Errorf("%s is not in the table", v.Name)
			}
		}
	}
}
