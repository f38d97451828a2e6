package main

import (
	"strings"
	"unsafe"
)

// arguments takes the two URLs out of argv: it copies them and then wipes
// where they stood, which is what /proc shows of a process even to those who
// may not look into it.
func arguments(argv []string) (in, out string, ok bool) {
	if len(argv) != 5 || argv[1] != "--in" || argv[2] == "" || argv[3] != "--out" || argv[4] == "" {
		return "", "", false
	}
	in, out = strings.Clone(argv[2]), strings.Clone(argv[4])
	wipe(argv[2])
	wipe(argv[4])
	return in, out, true
}

// wipe overwrites a string of os.Args, which the runtime lays over the
// process's own argument memory. It must not be used on any other string.
func wipe(s string) {
	clear(unsafe.Slice(unsafe.StringData(s), len(s)))
}
