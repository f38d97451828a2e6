package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/adapter"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

type flags struct {
	runtime, adapter, out, focus    string
	agent, hostile, source, cache   string
	gitleaks, packages              string
	noWalls, mutants, list, verbose bool
	prepare, noBuild                bool
	bench                           int
	slow                            float64
	merge                           []string
	command                         string
	// focused is what focus compiles to, nil without one.
	focused *regexp.Regexp
}

func parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{command: "sandbox-conformance " + strings.Join(args, " ")}
	set := flag.NewFlagSet("sandbox-conformance", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.runtime, "runtime", "", "the runtime to check: none or bwrap")
	set.StringVar(&f.adapter, "adapter", "", "an executable that speaks the port's verbs, to check instead")
	set.BoolVar(&f.noWalls, "expect-no-walls", false, "the negative control: exactly the wall specs must fail")
	set.BoolVar(&f.mutants, "mutants", true, "also make every mutant of the runtime and see it killed")
	set.StringVar(&f.focus, "focus", "", "check only these: a regular expression over ids, such as 'W|C0[1-9]'")
	set.StringVar(&f.out, "out", "out/conformance", "the directory for reports; each target has its own below")
	set.StringVar(&f.agent, "agent", "", "the agent, instead of building it")
	set.StringVar(&f.hostile, "hostile", "", "the hostile program, instead of building it")
	set.StringVar(&f.source, "source", "", "the source of the conformance module (default: where this is started)")
	set.StringVar(&f.cache, "cache", "", "the directory for what is built (default: the user's cache)")
	set.StringVar(&f.gitleaks, "gitleaks", os.Getenv("SANDBOX_CONFORMANCE_GITLEAKS"), "the gitleaks program for group F")
	set.StringVar(&f.packages, "packages", os.Getenv("SANDBOX_CONFORMANCE_PACKAGES"), "a directory of package files for group F")
	set.Float64Var(&f.slow, "slow", 1, "multiply every bound by this, for slow runtimes or machines")
	set.BoolVar(&f.prepare, "prepare", false, "build everything into the cache and check nothing")
	set.BoolVar(&f.noBuild, "no-build", false, "take everything from a cache that --prepare has filled")
	set.IntVar(&f.bench, "bench", 0, "measure so many runs of each kind instead of checking")
	set.BoolVar(&f.list, "list", false, "print every spec and check nothing")
	set.BoolVar(&f.verbose, "v", false, "print a line for each spec")
	merged := set.Bool("merge", false, "write one report.html over the report.json files given as arguments")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if *merged {
		f.merge = set.Args()
		if len(f.merge) == 0 {
			return nil, errors.New("--merge wants report.json files")
		}
		return f, nil
	}
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("unknown argument %q", set.Arg(0))
	case f.list, f.prepare:
	case (f.runtime == "") == (f.adapter == ""):
		return nil, errors.New("give either --runtime or --adapter")
	case f.runtime != "" && !slices.Contains(runtimes, f.runtime):
		return nil, fmt.Errorf("runtime %q is none that this command makes: %s", f.runtime, strings.Join(runtimes, " or "))
	case math.IsNaN(f.slow) || f.slow <= 0:
		return nil, errors.New("--slow wants a number above 0")
	}
	return f, f.compileFocus()
}

// runtimes are the values of --runtime.
var runtimes = []string{"none", "bwrap"}

// compileFocus refuses a pattern that does not compile or that no spec has: a
// suite over nothing would have nothing to fail.
func (f *flags) compileFocus() error {
	if f.focus == "" {
		return nil
	}
	var err error
	if f.focused, err = regexp.Compile("^(?:" + f.focus + ")"); err != nil {
		return fmt.Errorf("--focus: %w", err)
	}
	if !slices.ContainsFunc(conformance.Specs(), f.wants) {
		return fmt.Errorf("--focus %q matches no spec; --list names them", f.focus)
	}
	return nil
}

func (f *flags) wants(s conformance.Spec) bool { return f.focused.MatchString(s.ID) }

func targetOf(ctx context.Context, f *flags, b *targets.Builder) (*conformance.Target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var target *conformance.Target
	switch f.runtime {
	case "none":
		target = targets.None(self)
	case "bwrap":
		target = targets.Bwrap(ctx, b, self)
	case "":
		var err error
		if target, err = adapter.Target(ctx, f.adapter); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("runtime %q is none that this command makes: none or bwrap", f.runtime)
	}
	target.Command = f.command
	return target, nil
}

func optionsOf(ctx context.Context, f *flags, b *targets.Builder) (conformance.Options, error) {
	o := conformance.Options{WithoutWalls: f.noWalls, Out: f.out, Bounds: scaled(f.slow), Programs: map[string]string{}}
	var err error
	if o.Programs["hostile"], err = b.HostileBinary(ctx); err != nil {
		return o, err
	}
	if f.gitleaks != "" {
		o.Programs["gitleaks"] = f.gitleaks
	}
	if f.packages != "" {
		if o.Packages, err = packagesIn(f.packages); err != nil {
			return o, err
		}
	}
	if f.focused != nil {
		o.Focus = f.wants
	}
	return o, nil
}

func scaled(by float64) conformance.Bounds {
	b := conformance.DefaultBounds()
	for _, d := range []*time.Duration{&b.Start, &b.Run, &b.Short, &b.Grace, &b.Settle} {
		*d = time.Duration(float64(*d) * by)
	}
	return b
}

// packagesIn lists the files of a directory that look like packages, in order.
func packagesIn(dir string) ([]string, error) {
	var list []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, ending := range []string{".tgz", ".tar.gz", ".zip", ".whl", ".jar", ".crate", ".deb", ".gem", ".nupkg", ".vsix"} {
			if strings.HasSuffix(name, ending) {
				list = append(list, name)
			}
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}
