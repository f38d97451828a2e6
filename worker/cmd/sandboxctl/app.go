package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/internal/canary"
	"github.com/batleforc/batlehub-sandbox/worker/internal/identity"
	"github.com/batleforc/batlehub-sandbox/worker/internal/rehearse"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// app is one invocation.
type app struct {
	stdout, stderr *os.File
	getenv         func(string) string
	// busy counts what has to be cleaned up before the program may end.
	busy atomic.Int32
	// leaves says what may be left when the program ends while it is busy; nil
	// where nothing can be.
	leaves atomic.Pointer[string]

	// The flags that every command has.
	configs []string
	runtime string
	rooms   string
	runDir  string
	engine  string
	program string
	image   string
}

func (a *app) main(args []string) int {
	if err := checkDescriptors(); err != nil {
		a.say("sandboxctl: %s", err)
		return ExitFailed
	}
	ctx, again, stop := withSignals(context.Background())
	defer stop()
	// A reader that went away is an error of a write, and not the end of a
	// process that has things to clean up.
	ignoreBrokenPipes()
	root := a.root()
	root.SetArgs(args)
	err := a.execute(ctx, again, root)
	status := statusOf(ctx, err)
	if _, silent := errors.AsType[quiet](err); err != nil && !silent && !errors.Is(err, syscall.EPIPE) {
		if s, stopped := errors.AsType[*signalError](context.Cause(ctx)); stopped {
			err = a.stoppedBy(s, err)
		}
		a.say("sandboxctl: %s", err)
	}
	return status
}

// execute runs the command, and ends when it does, soon after a signal, or at
// once when there is another. A command that reads can be stuck in the kernel,
// where no context reaches it.
func (a *app) execute(ctx context.Context, again <-chan struct{}, root *cobra.Command) error {
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	for _, patience := range []time.Duration{idlePatience, busyPatience - idlePatience} {
		select {
		case err := <-ended:
			return err
		case <-again:
			return a.abandon(ctx, "a second signal came before all was cleaned up")
		case <-time.After(patience):
		}
		if a.busy.Load() == 0 {
			break
		}
	}
	return a.abandon(ctx, fmt.Sprintf("not all was cleaned up %d seconds later", int(busyPatience.Seconds())))
}

// say prints one line to stderr, whatever is in it.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, ui.Line(fmt.Sprintf(format, args...)))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sandboxctl",
		Short: "Scan packages in proven sandboxes",
		Long: `sandboxctl scans package files in sandboxes whose walls it has proven first.

Exit status: 0 clean, 1 findings, 2 wrong command line or configuration,
3 no answer, 4 the artifact was refused; 129, 130 and 143 after SIGHUP, SIGINT
and SIGTERM.
The status of "run" is the scanner's own; see "sandboxctl run --help".`,
		SilenceUsage: true, SilenceErrors: true,
		Args: unknownCommand,
		RunE: func(*cobra.Command, []string) error {
			return usagef("a command is missing; sandboxctl --help lists them")
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.configs, "config", nil, "configuration `file`; may be given more than once, later ones over earlier ones (default "+config.DefaultFile+" if it exists)")
	flags.StringVar(&a.runtime, "runtime", "", "`name` of a runtime, instead of [worker.sandbox] runtime")
	flags.StringVar(&a.rooms, "rooms", "", "`directory` with one room per scanner, instead of [worker.sandbox.bwrap] and [worker.sandbox.crun] rooms")
	flags.StringVar(&a.engine, "engine", "", "podman or docker, the `engine` of runtime oci, instead of [worker.sandbox.oci] engine")
	flags.StringVar(&a.program, "program", "", "crun, runc or runsc, the `program` of runtime crun, instead of [worker.sandbox.crun] program")
	flags.StringVar(&a.image, "image", "", "`image` of scanners that name none under runtime oci, instead of [worker.sandbox.oci] image")
	flags.StringVar(&a.runDir, "run-dir", "", "`directory` for run directories, instead of [worker.sandbox] run_dir")
	root.AddCommand(a.scanCommand(), a.runCommand(), a.probeCommand(), a.doctorCommand(), a.networkCommand(), a.treeCommand(), a.recordCommand(), a.workerCommand(), a.versionCommand())
	for _, c := range root.Commands() {
		c.Flags().SortFlags = false
	}
	return root
}

func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return usagef("unknown command %q; sandboxctl --help lists them", args[0])
}

func flagError(c *cobra.Command, err error) error {
	return usagef("%s; %s --help lists the flags", err, c.CommandPath())
}

// exactly is cobra.ExactArgs in one line and with what is wanted.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usagef("%s is missing; usage: %s", what, c.UseLine())
		case len(args) > n:
			return usagef("unexpected argument %q; usage: %s", args[n], c.UseLine())
		}
		return nil
	}
}

// load reads the configuration with the flags over it.
func (a *app) load() (*config.Config, error) {
	var over []config.Override
	for _, f := range []struct{ flag, value, key string }{
		{"--runtime", a.runtime, "worker.sandbox.runtime"},
		{"--rooms", a.rooms, "worker.sandbox.bwrap.rooms"},
		{"--rooms", a.rooms, "worker.sandbox.crun.rooms"},
		{"--program", a.program, "worker.sandbox.crun.program"},
		{"--run-dir", a.runDir, "worker.sandbox.run_dir"},
		{"--engine", a.engine, "worker.sandbox.oci.engine"},
		{"--image", a.image, "worker.sandbox.oci.image"},
	} {
		if f.value != "" {
			over = append(over, config.Override{Flag: f.flag, Key: f.key, Value: f.value})
		}
	}
	c, err := config.LoadWith(over, a.configs...)
	if err != nil {
		return nil, err
	}
	if err := build.CheckImages(c); err != nil {
		return nil, err
	}
	if err := rehearse.Config(c); err != nil {
		return nil, err
	}
	for _, f := range []struct{ flag, value, runtime string }{{"--engine", a.engine, "oci"}, {"--image", a.image, "oci"}, {"--program", a.program, "crun"}} {
		if f.value != "" && c.Worker.Sandbox.Runtime != f.runtime {
			return nil, usagef("%s has no effect under runtime %q; it goes with --runtime %s", f.flag, c.Worker.Sandbox.Runtime, f.runtime)
		}
	}
	for _, w := range c.Warnings {
		a.say("sandboxctl: warning: %s", w)
	}
	return c, nil
}

// prepare reads the configuration and the definitions of the named scanners,
// or of all that are configured.
func (a *app) prepare(names []string) (*config.Config, []scanner.Definition, error) {
	c, err := a.load()
	if err != nil {
		return nil, nil, err
	}
	definitions, err := scanners(c, names)
	return c, definitions, err
}

// session is a runtime and what a command's runs share.
type session struct {
	build.Built
	config   *config.Config
	base     scanner.Base
	scanners []scanner.Definition
	canary   *canary.Canary
	app      *app
	worker   *identity.Worker
	// left says that a run may have left something behind.
	left bool
	// swept says that the sweep at the start ended well.
	swept bool
	// stopped is closed when the command is told to stop.
	stopped <-chan struct{}
}

// openFor makes the configured runtime for the named scanners, or for all that
// are configured.
func (a *app) openFor(ctx context.Context, names []string) (*session, error) {
	c, definitions, err := a.prepare(names)
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, c, definitions)
}

// openWith makes the configured runtime, says which image each scanner runs
// in, and removes what others have left.
func (a *app) openWith(ctx context.Context, c *config.Config, definitions []scanner.Definition) (*session, error) {
	a.busy.Add(1)
	s := &session{
		config: c, canary: canary.Listen(), app: a, scanners: slices.Clone(definitions), worker: a.identify(c), stopped: ctx.Done(),
	}
	bundles, _ := c.BundleBackend()
	image := a.getenv(build.ImageVariable)
	var err error
	s.Built, err = build.Runtime(build.Options{
		Sandbox: c.Worker.Sandbox, Worker: s.worker.ID(), Unsafe: a.getenv(build.Unsafe) == "1", Canaries: s.canary.Addrs(),
		Storage: c.Storage, Bundles: bundles, Scanners: c.Scanners, WorkerImage: image, Getenv: a.getenv,
	})
	if err != nil {
		s.canary.Close()
		s.worker.Close(false)
		a.busy.Add(-1)
		return nil, err
	}
	s.base = baseOf(c.Worker.Sandbox)
	s.base.Worker, s.base.Job, s.base.Work = s.worker.ID(), "job-"+strings.ToLower(rand.Text()[:8]), s.Work
	s.base.WorkerImage = image
	if err := s.place(); err != nil {
		return nil, s.end(err)
	}
	if c.Worker.Sandbox.OrphanAfter() != 0 {
		a.leaves.Store(new(leavesOf(s)))
	}
	s.sweep(ctx)
	return s, nil
}

// place fills in the image that each scanner runs in.
func (s *session) place() error {
	if s.Images == nil {
		return nil
	}
	for i, d := range s.scanners {
		image, err := s.Images.Of(d.Name, d.Image)
		if err != nil {
			return err
		}
		s.scanners[i].Image = image
	}
	return nil
}

func baseOf(s config.Sandbox) scanner.Base {
	limits := wire.DefaultLimits()
	limits.MemoryMB, limits.AddressSpaceMB, limits.CPUSeconds = s.MemoryLimitMB, s.MemoryLimitMB, s.CPUSeconds
	limits.FileMB = s.MaxExtractedMB
	policy := wire.DefaultExtractPolicy()
	policy.MaxEntries = s.MaxEntries
	policy.MaxBytes, policy.MaxFileBytes = s.MaxExtractedMB<<20, s.MaxExtractedMB<<20
	return scanner.Base{Limits: limits, Policy: policy, StartTimeout: s.StartTimeout()}
}

// scanners are the definitions of the named scanners, or of all that are
// configured. A predefined scanner can be named without being configured.
func scanners(c *config.Config, names []string) ([]scanner.Definition, error) {
	if len(names) == 0 {
		for name, s := range c.Scanners {
			if scanner.Needed(s) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	if len(names) == 0 {
		return nil, usagef("no scanner is configured; add a [scanners.<name>] table, or name one of %s with --scanner", strings.Join(scanner.Predefined(), ", "))
	}
	var all []scanner.Definition
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, usagef("scanner %q is named twice", name)
		}
		s, configured := c.Scanners[name]
		if !configured {
			if !slices.Contains(scanner.Predefined(), name) {
				return nil, usagef("there is no scanner %q; add [scanners.%s] to the configuration, or name one of %s", name, name, strings.Join(scanner.Predefined(), ", "))
			}
			s = config.Scanner{Name: name, Timeline: true}
		}
		if !scanner.Needed(s) {
			return nil, usagef("scanner %q makes calls of its own and runs in no sandbox, so it is not scanned with here", name)
		}
		d, err := scanner.Define(s)
		if err == nil {
			err = rehearse.Network(c, d)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
