package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestARelPathIsRefusedWhenItIsMade(t *testing.T) {
	for name, s := range map[string]string{
		"empty":           "",
		"absolute":        "/etc/passwd",
		"parent":          "..",
		"parent inside":   "a/../b",
		"parent at end":   "a/..",
		"dot":             "./a",
		"double slash":    "a//b",
		"trailing slash":  "a/",
		"backslash":       `a\b`,
		"drive":           `C:\x`,
		"NUL":             "a\x00b",
		"newline":         "a\nb",
		"delete":          "a\x7fb",
		"not UTF-8":       "a\xffb",
		"long component":  strings.Repeat("x", NameBytesCap+1),
		"long path":       strings.Repeat("x/", PathBytesCap/2) + "x",
		"deep path":       strings.Repeat("x/", PathDepthCap) + "x",
		"only slash":      "/",
		"UNC":             `\\host\share`,
		"parent by slash": "a/b/../../../c",
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := ParseRelPath(s); !errors.Is(err, ErrPath) {
				t.Fatalf("ParseRelPath(%.40q) = %v, %v; want an ErrPath", s, p, err)
			}
		})
	}
}

func TestARelPathKeepsWhatItAccepts(t *testing.T) {
	for _, s := range []string{
		".", "a", "a/b", "package/index.js", "...", "..a", "a..", "é/ß", "a b", "-rf",
		strings.Repeat("x", NameBytesCap), strings.Repeat("x/", PathDepthCap-1) + "x",
	} {
		p, err := ParseRelPath(s)
		if err != nil {
			t.Errorf("ParseRelPath(%.40q): %v", s, err)
			continue
		}
		if p.String() != s {
			t.Errorf("ParseRelPath(%.40q) prints %.40q", s, p)
		}
		var back RelPath
		b, _ := json.Marshal(p)
		if err := json.Unmarshal(b, &back); err != nil || back != p {
			t.Errorf("%.40q came back from JSON as %v, %v", s, back, err)
		}
	}
}

func TestARelPathFromJSONIsChecked(t *testing.T) {
	var p RelPath
	if err := json.Unmarshal([]byte(`"../x"`), &p); !errors.Is(err, ErrPath) {
		t.Fatalf("got %v, want an ErrPath", err)
	}
	if err := json.Unmarshal([]byte(`7`), &p); err == nil {
		t.Fatal("a number was taken for a path")
	}
}
