package filesystem

import "strings"

// A key's segments become names on the disk with a mark at their end, so that
// "a" and "a/b" can both be keys: a directory is "a+", a file "a=". A segment
// that is too long for one name is cut, and all but its last piece are
// directories "…~".
const (
	dirMark, fileMark, cutMark = "+", "=", "~"
	nameCap                    = 200
)

// pathOf is a key's place below the root.
func pathOf(key string) string {
	path := dirsOf(key)
	return path + cut(key[strings.LastIndexByte(key, '/')+1:]) + fileMark
}

// dirsOf is the directories of all of a key's segments but the last, each with
// a slash after it.
func dirsOf(key string) string {
	var b strings.Builder
	for {
		segment, rest, more := strings.Cut(key, "/")
		if !more {
			return b.String()
		}
		b.WriteString(cut(segment) + dirMark + "/")
		key = rest
	}
}

func cut(segment string) string {
	var b strings.Builder
	for len(segment) > nameCap {
		b.WriteString(segment[:nameCap] + cutMark + "/")
		segment = segment[nameCap:]
	}
	return b.String() + segment
}

// keyOf is the key whose place a path is, or false for a path that is none's.
func keyOf(path string) (string, bool) {
	if !strings.HasSuffix(path, fileMark) {
		return "", false
	}
	var b strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		if len(part) < 2 {
			return "", false
		}
		name, mark := part[:len(part)-1], part[len(part)-1:]
		b.WriteString(name)
		switch mark {
		case dirMark:
			b.WriteString("/")
		case cutMark, fileMark:
		default:
			return "", false
		}
	}
	return b.String(), true
}
