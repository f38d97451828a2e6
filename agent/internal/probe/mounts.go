package probe

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mount is one line of /proc/self/mounts.
type mount struct {
	point, fstype string
	options       []string
}

func (m mount) has(option string) bool { return slices.Contains(m.options, option) }

// readMounts reads the mounts in the order in which they were made.
func readMounts(path string) ([]mount, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var mounts []mount
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			return nil, errors.New("a line with too few fields")
		}
		mounts = append(mounts, mount{point: unescape(fields[1]), fstype: fields[2], options: strings.Split(fields[3], ",")})
	}
	if len(mounts) == 0 {
		return nil, errors.New("the list is empty")
	}
	return mounts, nil
}

// mountAt returns the mount that is seen at a path, which is the last one made
// there.
func mountAt(mounts []mount, point string) (mount, bool) {
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].point == point {
			return mounts[i], true
		}
	}
	return mount{}, false
}

// mountOf returns the mount that a path is on: the last one made at it or
// above it.
func mountOf(mounts []mount, path string) (mount, bool) {
	for i := len(mounts) - 1; i >= 0; i-- {
		point := strings.TrimSuffix(mounts[i].point, "/")
		if path == point || strings.HasPrefix(path, point+"/") {
			return mounts[i], true
		}
	}
	return mount{}, false
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
