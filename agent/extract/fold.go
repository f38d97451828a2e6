package extract

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// fold returns the form in which two names are equal that a file system which
// ignores letter case or normalises Unicode would take for one. It errs on the
// side of equality: marks on one letter count as a set.
func fold(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return foldUnicode(s)
		}
	}
	return strings.ToLower(s)
}

var foldings = sync.OnceValue(func() map[rune]string {
	m := make(map[rune]string, strings.Count(foldTable, "\x00"))
	for record := range strings.SplitSeq(strings.TrimSuffix(foldTable, "\x00"), "\x00") {
		r, size := utf8.DecodeRuneInString(record)
		m[r] = record[size:]
	}
	return m
})

func foldUnicode(s string) string {
	table := foldings()
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if to, ok := table[r]; ok {
			out = append(out, []rune(to)...)
		} else if r >= 0xac00 && r < 0xac00+11172 {
			out = appendHangul(out, r-0xac00)
		} else {
			out = append(out, unicode.ToLower(r))
		}
	}
	for i := 0; i < len(out); i++ {
		end := i
		for end < len(out) && unicode.Is(unicode.M, out[end]) {
			end++
		}
		if end-i > 1 {
			slices.Sort(out[i:end])
		}
		i = max(i, end-1)
	}
	return string(out)
}

// appendHangul decomposes a Hangul syllable, which Unicode does by arithmetic.
func appendHangul(out []rune, syllable rune) []rune {
	const vowels, tails = 21, 28
	out = append(out, 0x1100+syllable/(vowels*tails), 0x1161+syllable%(vowels*tails)/tails)
	if tail := syllable % tails; tail != 0 {
		out = append(out, 0x11a7+tail)
	}
	return out
}
