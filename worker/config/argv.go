package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Placeholders are the words that are filled in in a scanner's arguments,
// between braces.
var Placeholders = []string{"artifact", "work", "name", "version", "ecosystem"}

// placeholder is whatever looks like one: a word between braces, with or
// without space around it. Other braces are the scanner's own business.
var placeholder = regexp.MustCompile(`\{(\s*)([A-Za-z_][A-Za-z0-9_-]*)(\s*)\}`)

// checkArgv refuses a command that can't be one, and arguments that would not
// become what was meant. A placeholder with a slip in it would reach the
// scanner as it stands: a file that does not exist, in which nothing is found.
func (d *document) checkArgv(s Scanner, at func(string) string) error {
	if fault := commandFault(s.Command); fault != "" {
		return d.refuse(at("command"), "the command of scanner '%s' is %.64q, which %s; want a name looked up on the room's PATH, or an absolute path in the room", s.Name, s.Command, fault)
	}
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return d.refuse(at("args"), "args[%d] of scanner '%s' has a NUL byte, which no argument can", i, s.Name)
		}
		if fault := placeholderFault(arg); fault != "" {
			return d.refuse(at("args"), "args[%d] of scanner '%s' has %s", i, s.Name, fault)
		}
	}
	return nil
}

func commandFault(command string) string {
	switch {
	case strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "has a control character"
	case command == "." || command == "..":
		return "is a directory"
	case !strings.Contains(command, "/"):
		return ""
	case !path.IsAbs(command):
		return "depends on a working directory that belongs to the artifact"
	case path.Clean(command) != command:
		return "has a superfluous part"
	}
	return ""
}

func placeholderFault(arg string) string {
	for _, m := range placeholder.FindAllStringSubmatch(arg, -1) {
		word, spaced := m[2], m[1]+m[3] != ""
		near := Nearest(word, Placeholders)
		switch {
		case !spaced && slices.Contains(Placeholders, word), spaced && near == "":
			continue
		case near != "":
			return fmt.Sprintf("the unknown placeholder %.64q; did you mean %q?", m[0], "{"+near+"}")
		}
		return fmt.Sprintf("the unknown placeholder %.64q; known are {%s}", m[0], strings.Join(Placeholders, "}, {"))
	}
	return ""
}
