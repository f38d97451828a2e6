package config

import (
	"errors"
	"fmt"
	"strings"
)

// Error is a configuration that is refused. It prints as one line: where, what
// is wrong, and what to do.
type Error struct {
	// File is the layer, Line the line in it; 0 where no line is to blame.
	File string
	Line int
	// Message is what is wrong and what to do about it.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return place(e.File, e.Line) + oneLine(e.Message) }

// Warning is something in the configuration that has no effect.
type Warning struct {
	File    string
	Line    int
	Message string
}

// String is the warning as one line.
func (w Warning) String() string { return place(w.File, w.Line) + oneLine(w.Message) }

func place(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return file + ": "
	}
	return fmt.Sprintf("%s:%d: ", file, line)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// IsConfig reports whether err is a refused configuration.
func IsConfig(err error) bool {
	_, is := errors.AsType[*Error](err)
	return is
}

// Nearest returns the name closest to got, or "" when none is close: at most a
// third of the letters may differ, or one name is the beginning of the other.
func Nearest(got string, names []string) string {
	best, bestDistance := "", 1+max(2, len(got)/3)
	for _, name := range names {
		d := distance(got, name)
		if len(got) >= 4 && (strings.HasPrefix(name, got) || strings.HasPrefix(got, name)) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of single-letter edits between a and b, a swap of two
// neighbours counting as one. Names are short; longer ones are cut.
func distance(a, b string) int {
	a, b = clip(strings.ToLower(a)), clip(strings.ToLower(b))
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func clip(s string) string { return s[:min(len(s), 64)] }
