package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean is s with everything escaped that a terminal would act on or that
// would make text look like other text: control characters of both sets,
// invalid bytes, direction overrides and other invisible characters. A line
// feed is escaped too: a cell is one line.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unsafe(r):
			escape(&b, r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// CleanText is Clean for text of several lines: line feeds and tabs stay.
func CleanText(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		i := strings.IndexAny(s, "\n\t")
		if i < 0 {
			b.WriteString(Clean(s))
			break
		}
		b.WriteString(Clean(s[:i]))
		b.WriteByte(s[i])
		s = s[i+1:]
	}
	return b.String()
}

// Line is Clean for text of any number of lines, such as that of errors that
// were joined, which becomes one: what was on lines of its own is set apart.
func Line(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		words := strings.Join(strings.Fields(line), " ")
		if words == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(joint(b.String()))
		}
		b.WriteString(words)
	}
	return Clean(b.String())
}

// joint is what goes between two lines: nothing but a blank where the first has
// a sign at its end.
func joint(before string) string {
	if strings.ContainsAny(before[len(before)-1:], ".,:;!?-(") {
		return " "
	}
	return "; "
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// unsafe tells runes that don't print as themselves. Spaces other than the
// plain one are among them.
func unsafe(r rune) bool { return !unicode.IsPrint(r) }

func escape(b *strings.Builder, r rune) {
	if r < 0x10000 {
		fmt.Fprintf(b, `\u%04x`, r)
		return
	}
	fmt.Fprintf(b, `\U%08x`, r)
}

// JSON writes v as indented JSON in which everything that does not print as
// itself is escaped, so that it can be looked at on a terminal as well.
func JSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	var out strings.Builder
	for _, r := range buf.String() {
		switch {
		case r == '\n' || !unsafe(r):
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
