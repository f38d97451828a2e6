// Command argvedit stands in an engine's place (bwrap, podman, docker) and
// changes what the engine is told: it is how the suite breaks one wall and
// leaves the others. The changes are in a file beside it, named after it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/beside"
)

// edit replaces one run of arguments by another. A run that is not there is a
// mistake of the suite's, and ends the program: a mutant that changes nothing
// would look like a wall that holds.
type edit struct {
	Find []string `json:"find"`
	With []string `json:"with"`
}

type config struct {
	// Program is the real one.
	Program string `json:"program"`
	// When is an argument without which nothing is changed: "bwrap --version"
	// is not a sandbox.
	When  string `json:"when"`
	Edits []edit `json:"edits"`
	// Ignore are verbs (first arguments) that are not carried out, and answered
	// as if they were.
	Ignore []string `json:"ignore"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "argvedit: %v\n", err)
		os.Exit(97)
	}
}

func run(args []string) error {
	var c config
	if err := beside.Config(&c); err != nil {
		return err
	}
	if len(args) > 0 && slices.Contains(c.Ignore, args[0]) {
		return nil
	}
	if slices.Contains(args, c.When) {
		for _, e := range c.Edits {
			var err error
			if args, err = e.apply(args); err != nil {
				return err
			}
		}
	}
	return syscall.Exec(c.Program, append([]string{filepath.Base(c.Program)}, args...), os.Environ())
}

func (e edit) apply(args []string) ([]string, error) {
	for i := range args {
		if len(args)-i >= len(e.Find) && slices.EqualFunc(args[i:i+len(e.Find)], e.Find, matches) {
			with := make([]string, len(e.With))
			for j, w := range e.With {
				if with[j] = w; len(w) == 2 && w[0] == '$' {
					with[j] = args[i+int(w[1]-'0')] // "$1" is the second argument found
				}
			}
			return slices.Concat(args[:i], with, args[i+len(e.Find):]), nil
		}
	}
	return nil, fmt.Errorf("%q is not among the arguments", e.Find)
}

// matches compares an argument with a pattern, at whose end "*" is anything.
func matches(arg, pattern string) bool {
	if begin, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(arg, begin)
	}
	return arg == pattern
}
