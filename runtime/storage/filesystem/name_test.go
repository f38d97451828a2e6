package filesystem

import (
	"strings"
	"testing"
)

func TestAKeysPlaceLeadsBackToIt(t *testing.T) {
	places := map[string]string{}
	for _, key := range []string{
		"a", "a/b", "a+", "a+/b", "a=", "a=/b", "a~", "~", "+", "=", "a/b=", ".part", ".part/x", "ä/ö",
		strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("x", 401) + "/" + strings.Repeat("y", 600),
		strings.Repeat("x", 200) + "/" + strings.Repeat("x", 200), strings.Repeat("x", 400),
	} {
		place := pathOf(key)
		if got, ok := keyOf(place); !ok || got != key {
			t.Errorf("%q is at %q, which is %q, %t", key, place, got, ok)
		}
		if other, taken := places[place]; taken {
			t.Errorf("%q and %q have one place", key, other)
		}
		places[place] = key
		for part := range strings.SplitSeq(place, "/") {
			if part == "." || part == ".." || part == "" || part == partDir || len(part) > 255 {
				t.Errorf("%q has a part %q", key, part)
			}
		}
	}
	for _, place := range []string{"a", "a+", "a/b=", "=", "+/b=", ".part/x="} {
		if key, ok := keyOf(place); ok && pathOf(key) != place {
			t.Errorf("%q is taken for %q", place, key)
		}
	}
}
