package extract

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// RefusalError is an answer about the artifact: what in it broke which rule.
type RefusalError struct{ wire.Refusal }

// Error names the input, the entry, the rule and what was found.
func (e *RefusalError) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("archive %s refused: %s: %s", e.Input, e.Rule, e.Detail)
	}
	return fmt.Sprintf("archive %s refused: entry %s: %s: %s", e.Input, e.Entry, e.Rule, e.Detail)
}

func refuse(entry, rule, detail string) error {
	return &RefusalError{wire.Refusal{Entry: quote(entry), Rule: rule, Detail: trim(detail)}}
}

// The actions of a wire.Note.
const (
	skipped  = "skipped"
	renamed  = "renamed"
	replaced = "replaced"
	clamped  = "clamped"
	noted    = "noted"
)

// note counts a deviation, and names it if it is among the first.
func (x *Extractor) note(entry, rule, action, detail string) {
	x.count(func(r *wire.Extraction) {
		switch action {
		case skipped:
			r.Skipped++
		case renamed:
			r.Renamed++
		case replaced:
			r.Replaced++
		case clamped:
			r.Clamped++
		case noted:
			r.Noted++
		}
		if len(r.Notes) < wire.NoteCountCap {
			r.Notes = append(r.Notes, wire.Note{Entry: quote(entry), Rule: rule, Action: action, Detail: trim(detail)})
		}
	})
}

func (x *Extractor) count(f func(*wire.Extraction)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.report)
}

// stringCap keeps a hundred notes of hostile names far below the cap of
// result.json, however JSON has to escape them.
const stringCap = 300

// quote returns a name as it may be shown: quoted unless it is printable
// UTF-8, and cut in the middle of what is too long to show.
func quote(name string) string {
	for _, r := range name {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return trim(strconv.Quote(clip(name)))
		}
	}
	return trim(name)
}

func clip(s string) string { return s[:min(len(s), 2*stringCap)] }

// trim shortens s to stringCap bytes, keeping both of its ends.
func trim(s string) string {
	if len(s) <= stringCap {
		return s
	}
	head, tail := s[:stringCap*2/3], s[len(s)-stringCap/3+3:]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + "…" + tail
}
