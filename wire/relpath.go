package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// RelPath is a path below some root: components joined by "/", none of them
// empty, "." or "..". It is checked when it is made, so whoever holds one need
// not check it again. The zero value is the root itself.
type RelPath struct {
	s string
}

// ErrPath is wrapped by every refusal of a RelPath.
var ErrPath = errors.New("invalid relative path")

// ParseRelPath checks s and returns it as a RelPath. It accepts "." for the
// root. It refuses absolute paths, "..", empty components (so also a trailing
// slash), backslashes, NUL and other control characters, invalid UTF-8, and
// anything over PathBytesCap, NameBytesCap or PathDepthCap.
func ParseRelPath(s string) (RelPath, error) {
	if s == "." {
		return RelPath{}, nil
	}
	if rule := relPathFault(s); rule != "" {
		return RelPath{}, fmt.Errorf("%w %.64q: %s", ErrPath, s, rule)
	}
	return RelPath{s}, nil
}

// MustRelPath is ParseRelPath for constants; it panics on a fault.
func MustRelPath(s string) RelPath {
	p, err := ParseRelPath(s)
	if err != nil {
		panic(err)
	}
	return p
}

func relPathFault(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > PathBytesCap:
		return fmt.Sprintf("it is longer than %d bytes", PathBytesCap)
	case s[0] == '/':
		return "it is absolute"
	case !utf8.ValidString(s):
		return "it is not UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "it has a control character"
	case strings.Contains(s, `\`):
		return "it has a backslash"
	}
	if strings.Count(s, "/") >= PathDepthCap {
		return fmt.Sprintf("it is deeper than %d components", PathDepthCap)
	}
	for component := range strings.SplitSeq(s, "/") {
		switch {
		case component == "":
			return "it has an empty component"
		case component == "." || component == "..":
			return fmt.Sprintf("it has a %q component", component)
		case len(component) > NameBytesCap:
			return fmt.Sprintf("a component is longer than %d bytes", NameBytesCap)
		}
	}
	return ""
}

// String returns the path, "." for the root.
func (p RelPath) String() string {
	if p.s == "" {
		return "."
	}
	return p.s
}

// IsRoot reports whether p is the root itself.
func (p RelPath) IsRoot() bool { return p.s == "" }

// MarshalJSON writes the path as a string.
func (p RelPath) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads and checks a path.
func (p *RelPath) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	parsed, err := ParseRelPath(s)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
