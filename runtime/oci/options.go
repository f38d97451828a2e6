package oci

import "strings"

// option is one flag of an engine's command line by its long name, with its value.
type option struct{ name, value string }

// letters are the flags of one letter that matter here; both engines have them.
var letters = map[byte]string{'v': "--volume", 'l': "--label", 'd': "--detach"}

// switches are the letters that take no value and may be followed by others.
const switches = "diPqt"

// optionsOf are the flags among args as both engines read them. What follows a
// flag is its value here even if it takes none, and a flag of its own besides if
// it looks like one: one too many is refused where one too few would pass.
func optionsOf(args []string) []option {
	var list []option
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
		case !strings.HasPrefix(arg, "--"):
			list = append(list, lettersOf(arg[1:], next)...)
		case joined:
			list = append(list, option{name, value})
		default:
			list = append(list, option{name, next})
		}
	}
	return list
}

// lettersOf are the flags of one word of letters, such as "itv/a:/b".
func lettersOf(word, next string) []option {
	var list []option
	for i := range len(word) {
		name, value := letters[word[i]], word[i+1:]
		if strings.IndexByte(switches, word[i]) >= 0 && !strings.HasPrefix(value, "=") {
			list = append(list, option{name, ""})
			continue
		}
		if value == "" {
			value = next
		}
		return append(list, option{name, strings.TrimPrefix(value, "=")})
	}
	return list
}
