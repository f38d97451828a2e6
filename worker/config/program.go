package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// programs are those that stand in for a sandbox's program somewhere, and so
// are named where another is wanted.
var programs = []string{"bwrap", "podman", "docker", "nerdctl", "crun", "runc", "runsc", "kubectl"}

// checkProgram refuses a program that is known to be another than the one that
// is run there: it would be given a command line that it does not understand.
// One of any other name is tried.
func (d *document) checkProgram(path, value string, want ...string) error {
	name := strings.TrimSuffix(filepath.Base(value), "-remote")
	if slices.Contains(want, name) || !slices.Contains(programs, name) {
		return nil
	}
	return d.refuse(path, "%s = %.128q is the program of something else; want %s, or leave the key out", dotted(path), value, strings.Join(want, ", "))
}
