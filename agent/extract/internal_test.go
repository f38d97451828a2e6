package extract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAHardLinkIsCopiedWhereTheFileSystemHasNone(t *testing.T) {
	defer func(f func(int, string, int, string) error) { linkat = f }(linkat)
	for _, errno := range []unix.Errno{unix.EMLINK, unix.EPERM, unix.EOPNOTSUPP} {
		linkat = func(int, string, int, string) error { return errno }
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		x := New(root, wire.DefaultExtractPolicy())
		x.policy.MaxBytes = 11
		x.tree = newTree(x)
		if err := x.tree.open(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("12345"), 0o644); err != nil {
			t.Fatal(err)
		}
		from := place{dir: x.tree.top, name: "f", entry: "f"}
		for i, name := range []string{"g", "h", "i"} {
			err := x.tree.hardlink(&place{dir: x.tree.top, name: name, entry: name}, from)
			if (err == nil) != (i < 2) {
				t.Fatalf("%v: copy %d: %v", errno, i, err)
			}
		}
		x.tree.close()
		if b, err := os.ReadFile(filepath.Join(dir, "g")); err != nil || string(b) != "12345" {
			t.Errorf("%v: the copy is %q, %v", errno, b, err)
		}
		if x.report.Hardlinks != 2 || x.report.Bytes != 10 {
			t.Errorf("%v: counted %d links of %d bytes", errno, x.report.Hardlinks, x.report.Bytes)
		}
	}
}

func TestNamesThatOneFileSystemTakesForOneFoldAlike(t *testing.T) {
	for _, same := range [][]string{
		{"readme", "README", "ReadMe"},
		{"\u00e9", "e\u0301", "\u00c9", "E\u0301"},
		{"stra\u00dfe", "STRASSE", "stra\u1e9ee"},
		{"\u212a", "k", "K"},       // the Kelvin sign
		{"\u2126", "\u03c9"},       // the ohm sign and omega
		{"\u03c3", "\u03c2"},       // sigma at a word's end
		{"\uac00", "\u1100\u1161"}, // Hangul
		{"\u1e69", "s\u0323\u0307", "s\u0307\u0323"},
		{"\ufb01", "fi"},
	} {
		for _, name := range same {
			if fold(name) != fold(same[0]) {
				t.Errorf("%q folds to %q, %q to %q", name, fold(name), same[0], fold(same[0]))
			}
		}
	}
	for _, name := range []string{"a", "b", "e", "\u00e9", "\ufffd", "", "\u4e2d", "\u6587", "i", "\u0131"} {
		for _, other := range []string{"c", "\u00e8", "x\ufffd", "\u56fd"} {
			if fold(name) == fold(other) {
				t.Errorf("%q and %q fold alike", name, other)
			}
		}
	}
}

func TestShownNamesAreShortAndPrintable(t *testing.T) {
	for _, name := range []string{"plain", "a\nb", "\xff", strings.Repeat("\u00e9", 5000), strings.Repeat("\x00", 5000), strings.Repeat("a", 299) + "\u00e9\u00e9"} {
		got := quote(name)
		if len(got) > stringCap || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\x00") {
			t.Errorf("%.20q is shown as %q", name, got)
		}
	}
}
