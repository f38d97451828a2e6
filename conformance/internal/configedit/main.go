// Command configedit stands in the place of an OCI runtime program (crun, runc,
// runsc) and changes the config.json that the program is started over, or the
// cgroup that was made for it: it is how the suite breaks one wall and leaves
// the others. The changes are in a file beside it, named after it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/beside"
)

type config struct {
	// Program is the real one.
	Program string `json:"program"`
	// Edits change config.json, in order.
	Edits []edit `json:"edits"`
	// Limits are written to files of the run's cgroups.
	Limits []limit `json:"limits"`
	// Args are arguments that stand for others; each has to be there.
	Args map[string]string `json:"args"`
	// Ignore are arguments of verbs that are not carried out, and answered as
	// if they were.
	Ignore []string `json:"ignore"`
}

// limit is written wherever the run's cgroups have such a file. A set of limits
// of which no file is there is a mistake of the suite's.
type limit struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "configedit: %v\n", err)
		os.Exit(97)
	}
}

func run(args []string) error {
	var c config
	if err := beside.Config(&c); err != nil {
		return err
	}
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(c.Ignore, arg) }) {
		return nil
	}
	if i := slices.Index(args, "--bundle"); i >= 0 && i+1 < len(args) {
		if err := c.change(filepath.Join(args[i+1], "config.json")); err != nil {
			return err
		}
		for from, to := range c.Args {
			j := slices.Index(args, from)
			if j < 0 {
				return fmt.Errorf("%q is not among the arguments", from)
			}
			args[j] = to
		}
	}
	return syscall.Exec(c.Program, append([]string{c.Program}, args...), os.Environ())
}

// change changes one config.json and its run's cgroups.
func (c config) change(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var document any
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	for _, e := range c.Edits {
		if document, err = e.apply(document, e.At); err != nil {
			return fmt.Errorf("%q: %w", e.At, err)
		}
	}
	if err := c.loosen(document); err != nil {
		return err
	}
	if b, err = json.Marshal(document); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// loosen writes the limits of the container's cgroup and of the run's above it,
// in every hierarchy that has them, from above.
func (c config) loosen(document any) error {
	if len(c.Limits) == 0 {
		return nil
	}
	linux, _ := document.(map[string]any)["linux"].(map[string]any)
	inner, _ := linux["cgroupsPath"].(string)
	if !filepath.IsAbs(inner) {
		return fmt.Errorf("the container's cgroup is %q", inner)
	}
	written := 0
	for _, cgroup := range []string{filepath.Dir(inner), inner} {
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			for _, l := range c.Limits {
				files, err := filepath.Glob(filepath.Join(mount, cgroup, l.File))
				if err != nil {
					return err
				}
				for _, file := range files {
					if err := os.WriteFile(file, []byte(l.Value), 0o644); err != nil {
						return err
					}
					written++
				}
			}
		}
	}
	if written == 0 {
		return fmt.Errorf("no cgroup of the run has any of %v", c.Limits)
	}
	return nil
}
