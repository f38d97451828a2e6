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
	engine, transport, s3, s3Binary string
	engineBinary, program           string
	kubeconfig, load, class         string
	nodeElsewhere                   bool
	parallel                        int
	agent, hostile, source, cache   string
	gitleaks, packages              string
	noWalls, mutants, list, verbose bool
	prepare, noBuild                bool
	bench                           int
	slow                            float64
	merge                           []string
	command                         string
	// lacking are the specs of the core that the target is known not to claim.
	lacking []string
	// focused is what focus compiles to, nil without one.
	focused *regexp.Regexp
}

func parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{command: "sandbox-conformance " + strings.Join(args, " ")}
	set := flag.NewFlagSet("sandbox-conformance", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.runtime, "runtime", "", "the runtime to check: none, bwrap, oci, crun or kubernetes")
	set.StringVar(&f.program, "program", "", "with --runtime crun: runc, crun or runsc, or a path of one")
	set.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("BATLEHUB_TEST_KUBECONFIG"), "with --runtime kubernetes: a file whose current context may make namespaces")
	set.StringVar(&f.load, "load", "scripts/cluster.sh", "with --runtime kubernetes: the program that brings images to the nodes")
	set.StringVar(&f.class, "class", "", "with --runtime kubernetes: the runtime class of every pod")
	set.BoolVar(&f.nodeElsewhere, "node-elsewhere", os.Getenv("BATLEHUB_KIND") != "", "with --runtime kubernetes: the nodes do not have this host's files (default: with BATLEHUB_KIND)")
	set.StringVar(&f.engine, "engine", "", "with --runtime oci: podman or docker")
	set.StringVar(&f.transport, "transport", "", "with --runtime oci: mount or storage")
	set.StringVar(&f.engineBinary, "engine-binary", "", "the engine's command line (default: the engine's name)")
	set.StringVar(&f.s3, "s3", "minio", "the storage server to start for what moves by one, minio or versitygw")
	set.StringVar(&f.s3Binary, "s3-binary", "", "that server's program (default: its name on PATH)")
	minio := set.String("minio", "", "the same as --s3 minio --s3-binary PATH")
	set.IntVar(&f.parallel, "parallel", 0, "how many specs of group E may run at once (default: 1, and 3 with --runtime oci or kubernetes)")
	set.StringVar(&f.adapter, "adapter", "", "an executable that speaks the port's verbs, to check instead")
	set.BoolVar(&f.noWalls, "expect-no-walls", false, "the negative control: exactly the wall specs must fail")
	lacking := set.String("expect-partial", "", "ids of the core, with commas between: exactly these must not be claimed, and the status is 0 then")
	set.BoolVar(&f.mutants, "mutants", true, "also make every mutant of the runtime and see it killed")
	set.StringVar(&f.focus, "focus", "", "check only these, and the mutants that they must kill: a regular expression over ids, such as 'W|C0[1-9]'")
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
	if *minio != "" {
		f.s3, f.s3Binary = "minio", *minio
	}
	if *lacking != "" {
		f.lacking = strings.Split(*lacking, ",")
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
	case f.runtime == "oci" && (!slices.Contains(engines, f.engine) || !slices.Contains(transports, f.transport)):
		return nil, fmt.Errorf("--runtime oci wants --engine %s and --transport %s", strings.Join(engines, " or "), strings.Join(transports, " or "))
	case f.runtime != "oci" && (f.engine != "" || f.transport != "" || f.engineBinary != ""):
		return nil, errors.New("--engine, --engine-binary and --transport go with --runtime oci alone")
	case f.runtime != "oci" && f.runtime != "kubernetes" && f.s3Binary != "":
		return nil, errors.New("--minio and --s3-binary go with --runtime oci or kubernetes alone")
	case f.runtime != "kubernetes" && f.class != "":
		return nil, errors.New("--class goes with --runtime kubernetes alone")
	case (f.runtime == "crun") != (f.program != ""):
		return nil, errors.New("--runtime crun wants --program runc, crun, runsc or a path of one, and nothing else does")
	case !slices.Contains(targets.S3Servers, f.s3):
		return nil, fmt.Errorf("--s3 %q is no server that this command starts: %s", f.s3, strings.Join(targets.S3Servers, " or "))
	case f.parallel < 0:
		return nil, errors.New("--parallel wants a number of at least 1")
	case math.IsNaN(f.slow) || f.slow <= 0:
		return nil, errors.New("--slow wants a number above 0")
	case f.noWalls && f.lacking != nil:
		return nil, errors.New("--expect-no-walls and --expect-partial exclude each other")
	}
	f.defaults()
	return f, errors.Join(f.compileFocus(), f.checkLacking())
}

func (f *flags) defaults() {
	if f.s3Binary == "" {
		f.s3Binary = f.s3
	}
	if f.parallel == 0 {
		f.parallel = 1
		if isRemote(f.runtime) {
			f.parallel = 3
		}
	}
}

// The values of --runtime, --engine and --transport.
var (
	runtimes   = []string{"none", "bwrap", "oci", "crun", "kubernetes"}
	engines    = []string{"podman", "docker"}
	transports = []string{"mount", "storage"}
)

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

// checkLacking refuses what is no spec of the core: it would be expected in vain.
func (f *flags) checkLacking() error {
	for _, id := range f.lacking {
		if !slices.ContainsFunc(conformance.Specs(), func(s conformance.Spec) bool { return s.ID == id && s.Core() }) {
			return fmt.Errorf("--expect-partial: %q is no spec of the core; --list names all specs", id)
		}
	}
	return nil
}

func (f *flags) wants(s conformance.Spec) bool { return f.focused.MatchString(s.ID) }

// targetOf makes the target, and what takes away again what that started.
func targetOf(ctx context.Context, f *flags, b *targets.Builder) (target *conformance.Target, closing func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	closing = func() error { return nil }
	switch f.runtime {
	case "none":
		target = targets.None(self)
	case "bwrap":
		target = targets.Bwrap(ctx, b, self)
	case "oci":
		target, closing, err = targets.OCI(ctx, b, targets.OCIOptions{
			Engine: f.engine, Transport: f.transport, Binary: f.engineBinary, S3: f.s3, S3Binary: f.s3Binary, Self: self,
		})
	case "kubernetes":
		target, closing, err = targets.Kubernetes(ctx, b, targets.KubernetesOptions{
			Kubeconfig: f.kubeconfig, Load: f.load, Class: f.class, NodeElsewhere: f.nodeElsewhere, S3: f.s3, S3Binary: f.s3Binary, Self: self,
		})
	case "crun":
		target, err = targets.Crun(ctx, b, f.program, self)
	default:
		target, err = adapter.Target(ctx, f.adapter)
	}
	if err != nil {
		return nil, nil, err
	}
	target.Command = f.command
	return target, closing, nil
}

func optionsOf(ctx context.Context, f *flags, b *targets.Builder) (conformance.Options, error) {
	o := conformance.Options{Parallel: f.parallel, WithoutWalls: f.noWalls, Out: f.out, Bounds: scaled(f.slow, f.runtime), Programs: map[string]string{}}
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

// isRemote says whether a runtime asks an engine or a cluster several times for
// each run, which takes its time over each answer.
func isRemote(runtime string) bool { return runtime == "oci" || runtime == "kubernetes" }

// scaled are the bounds of a command line.
func scaled(by float64, runtime string) conformance.Bounds {
	if isRemote(runtime) {
		by *= 4
	}
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
