package ui

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
)

// hostile is text that does something to a terminal, or looks like other text.
const hostile = "a\x1b[2J\x1b]0;t\x07\u009b31m\r\n\t\x00\x7f\u202egpj\u200b\u2028\xff\xc3é中\U000e0041"

func TestNothingHostileReachesATerminal(t *testing.T) {
	for name, got := range map[string]string{"clean": Clean(hostile), "json": jsonOf(t, hostile), "table": tableOf(t, hostile)} {
		for _, r := range strings.TrimSuffix(got, "\n") {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s: %U in %q", name, r, got)
			}
		}
	}
	want := `a\u001b[2J\u001b]0;t\u0007\u009b31m\u000d\u000a\u0009\u0000\u007f\u202egpj\u200b\u2028\xff\xc3é中\U000e0041`
	if got := Clean(hostile); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Clean("plain é 中 …"); got != "plain é 中 …" {
		t.Errorf("changed to %q", got)
	}
}

func TestTextKeepsItsLinesAndTabs(t *testing.T) {
	if got, want := CleanText("a\tb\n\x1b[2Jc\r\n\n\xff"), "a\tb\n\\u001b[2Jc\\u000d\n\n\\xff"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEscapedJSONIsStillTheSameJSON(t *testing.T) {
	text := strings.ToValidUTF8(hostile, "\uFFFD") + "<&>"
	var back string
	if err := json.Unmarshal([]byte(jsonOf(t, text)), &back); err != nil || back != text {
		t.Errorf("%q, %v, want %q", back, err, text)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tableOf(t *testing.T, cells ...string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, "  ", [][]string{cells}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestColumnsStandBelowEachOther(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, "  ", [][]string{{"high", "é", "x"}, {"low", "long rule", "y"}, {"", "", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "  high  é          x\n  low   long rule  y\n\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestSizesAreForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestProgressInAPipeIsSilent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := NewProgress(w)
	p.Start("something")
	p.Start("something else")
	p.Stop()
	p.Stop()
	_ = w.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil || b.Len() != 0 {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestTextOfManyLinesBecomesOne(t *testing.T) {
	for text, want := range map[string]string{
		"one":                                 "one",
		"":                                    "",
		"\n \n":                               "",
		"writing the report: no\nthe run: no": "writing the report: no; the run: no",
		"a\n\nb\r\n  c\td\n":                  "a; b; c d",
		"usage:\n  x\nand, \ny.":              "usage: x; and, y.",
		"\x1b[2J\rsandboxctl: forged\n\x07":   "\\u001b[2J sandboxctl: forged; \\u0007",
		"a\u2028b\u0085c\u00a0d\u202ee\xff":   "a b c d\\u202ee\\xff",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
