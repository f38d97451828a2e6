package storage

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckKey refuses keys that not every backend can keep.
func CheckKey(key string) error {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("key %.64q is not 1 to 1024 bytes of printable UTF-8", key)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("key %.64q has a segment %q", key, part)
		}
	}
	return nil
}
