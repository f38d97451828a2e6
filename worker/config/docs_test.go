package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const reference = "../../docs/guide/configuration.md"

// row is how the reference documents a key.
func row(k Key) string {
	value := k.Default
	if value == "" {
		value = "by type"
	} else {
		value = "`" + value + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", k.Name, k.Type, value, k.Doc)
}

// The reference has one section per table and one row per key, in the table's
// order: what it says is what the program does.
func TestTheReferenceDocumentsEveryKeyWithItsDefault(t *testing.T) {
	b, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?m)^### `\\[(.+)\\]`$")
	text := string(b)
	places := section.FindAllStringSubmatchIndex(text, -1)
	got := map[string][]string{}
	for i, p := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		if next := strings.Index(text[p[1]:end], "\n## "); next >= 0 {
			end = p[1] + next
		}
		table := text[p[2]:p[3]]
		for line := range strings.Lines(text[p[1]:end]) {
			if strings.HasPrefix(line, "| `") {
				got[table] = append(got[table], strings.TrimSpace(line))
			}
		}
	}
	want := map[string][]string{}
	for _, k := range Keys() {
		want[k.Table] = append(want[k.Table], row(k))
	}
	for table, rows := range want {
		if g, w := strings.Join(got[table], "\n"), strings.Join(rows, "\n"); g != w {
			t.Errorf("[%s] in %s has\n%s\nwant\n%s", table, reference, g, w)
		}
		delete(got, table)
	}
	for table := range got {
		t.Errorf("%s documents [%s], which does not exist", reference, table)
	}
}

// Every example of the reference loads as it stands.
func TestTheReferencesExamplesLoad(t *testing.T) {
	b, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	if len(examples) < 3 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		if _, err := Load(write(t, "example.toml", e[1])); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}

// The refusal of a worker that can't start names this page and anchor.
func TestTheOperationsPageHasTheAnchorThatMessagesName(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations/scan-worker.md")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^## Runtimes$`).Match(b) {
		t.Error("there is no heading whose anchor is #runtimes")
	}
	for _, name := range Runtimes {
		if !strings.Contains(string(b), "### `"+name+"`") {
			t.Errorf("runtime %s has no section", name)
		}
	}
}
