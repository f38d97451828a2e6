package targets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

const scanner = "conformance"

// None is the runtime without walls. It is the negative control: the wall
// specs must fail on it, or they see nothing.
func None(self string) *conformance.Target {
	t := &conformance.Target{
		Name:         none.Name,
		Capabilities: []conformance.Capability{conformance.Results, conformance.Timeouts, conformance.Sweep, conformance.Network},
		Versions:     map[string]string{},
		Scanner:      scanner,
		New:          newNone,
		Program:      func(s conformance.Setup, name string) string { return s.Programs[name] },
		Left:         leftIn("runs"),
		Orphans:      directories("runs"),
		Reference:    newNone,
	}
	if self != "" {
		t.Capabilities = append(t.Capabilities, conformance.Worker)
		t.Worker = workerOf(self, noneWorker)
	}
	return t
}

func newNone(_ context.Context, s conformance.Setup) (sandbox.Runtime, error) {
	r, err := none.New(none.Config{Unsafe: true, RunDir: filepath.Join(s.Dir, "runs")})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// leftIn lists what is in a directory below the target's own.
func leftIn(name string) func(conformance.Setup) ([]string, error) {
	return func(s conformance.Setup) ([]string, error) {
		entries, err := os.ReadDir(filepath.Join(s.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var list []string
		for _, e := range entries {
			list = append(list, "run directory "+e.Name())
		}
		return list, err
	}
}
