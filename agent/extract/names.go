package extract

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// cleaned is an entry's name once it is known to be harmless.
type cleaned struct {
	path  string // components joined by "/", "" for the archive's own directory
	slash bool   // the name ended in a slash
	// changed is the rule by which path differs from the name, if any.
	changed string
}

// clean judges a name. Empty and "." components say nothing and every reader
// drops them; what two readers could understand differently is refused; what
// merely can't be shown is written as %XX.
func (x *Extractor) clean(raw string) (cleaned, error) {
	if int64(len(raw)) > x.policy.MaxPathBytes {
		return cleaned{}, refuse(raw, RuleLimitPathBytes, fmt.Sprintf("the name has %d bytes, want at most %d", len(raw), x.policy.MaxPathBytes))
	}
	if rule, detail := nameFault(raw); rule != "" {
		return cleaned{}, refuse(raw, rule, detail)
	}
	c := cleaned{path: raw, slash: strings.HasSuffix(raw, "/")}
	if !plain(raw) {
		c.path, c.changed = escape(raw)
	}
	if !tidy(c.path) {
		c.path = tidied(c.path)
	}
	if c.path == "" {
		return c, nil
	}
	if depth := int64(strings.Count(c.path, "/")) + 1; depth > x.policy.MaxDepth {
		return cleaned{}, refuse(raw, RuleLimitDepth, fmt.Sprintf("the name has %d components, want at most %d", depth, x.policy.MaxDepth))
	}
	return c, componentFault(raw, c.path)
}

func nameFault(raw string) (rule, detail string) {
	switch {
	case strings.HasPrefix(raw, "/"):
		return RuleNameAbsolute, "the name begins with a slash"
	case drive(raw) && (len(raw) == 2 || raw[2] == '/' || raw[2] == '\\'):
		return RuleNameAbsolute, "the name begins with a drive"
	case strings.Contains(raw, "//?/"):
		return RuleNameAbsolute, "the name has a device path in it"
	case strings.IndexByte(raw, 0) >= 0:
		return RuleNameNUL, "the name has a NUL byte"
	case strings.IndexByte(raw, '\\') >= 0:
		return RuleNameBackslash, "the name has a backslash"
	}
	return "", ""
}

// drive reports whether a name begins as one on a drive does. npm takes the
// first component away and then, on every system, what is a root to Windows.
func drive(s string) bool { return len(s) > 1 && s[1] == ':' && letter(s[0]) }

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func componentFault(raw, path string) error {
	for rest, at := path, 0; rest != ""; at++ {
		component, after, _ := strings.Cut(rest, "/")
		rest = after
		// Deeper down a colon is ordinary: manuals are called B::Name.3pm.
		if drive(component) && (at < 2 || len(component) == 2) {
			return refuse(raw, RuleNameAbsolute, "a component of the name begins as a drive does")
		}
		if component == ".." {
			return refuse(raw, RuleNameTraversal, `the name has a ".." component`)
		}
		if len(component) > wire.NameBytesCap {
			return refuse(raw, RuleNameTooLong, fmt.Sprintf("a component has %d bytes, want at most %d", len(component), wire.NameBytesCap))
		}
	}
	return nil
}

// plain reports whether every byte is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// escape writes control characters and stray bytes as %XX.
func escape(s string) (escaped, rule string) {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			rule = RuleNameEncoding
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			if rule == "" {
				rule = RuleNameControl
			}
		default:
			b.WriteString(s[i : i+size])
			i += size
			continue
		}
		for range size {
			fmt.Fprintf(&b, "%%%02X", s[i])
			i++
		}
	}
	return b.String(), rule
}

// tidy reports whether no component is empty or ".".
func tidy(s string) bool {
	return s != "." && !strings.HasPrefix(s, "./") && !strings.HasSuffix(s, "/") && !strings.HasSuffix(s, "/.") &&
		!strings.Contains(s, "//") && !strings.Contains(s, "/./")
}

func tidied(s string) string {
	var kept []string
	for component := range strings.SplitSeq(s, "/") {
		if component != "" && component != "." {
			kept = append(kept, component)
		}
	}
	return strings.Join(kept, "/")
}
