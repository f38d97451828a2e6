package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
)

type runFlags struct {
	room                       string
	files, archives            []string
	network                    bool
	timeout                    time.Duration
	memory, cpu, address, fsmb int64
	report                     string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARG]…", Short: "Run one command over files in a proven sandbox",
		Long: `Probes the room and then runs one command in a sandbox of its own, without a
shell, with /work as the one writable directory and the working directory (on
runtime "none" a temporary directory). Its standard output comes out as it is,
on a terminal with control characters escaped; the end of its standard error
follows on this program's.

Exit status: the command's own; 123 if the artifact was refused, 124 if it ran
out of time, 125 if the sandbox gave no answer, 126 if the command can't be
executed, 127 if it is not in the room, 128+n if signal n killed it, 2 if the
command line or the configuration is wrong. A command may use these statuses
too: --report says which it was.`,
		Example: `  sandboxctl run --room gitleaks --archive src=left-pad-1.3.0.tgz -- gitleaks dir src`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("the command is missing; usage: %s", c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkLimits(c); err != nil {
				return err
			}
			return a.run(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.room, "room", "", "`name` of the room, that is of a scanner")
	flags.StringArrayVar(&f.files, "file", nil, "`PATH=FILE`: put FILE at /work/PATH; may be given more than once")
	flags.StringArrayVar(&f.archives, "archive", nil, "`PATH=FILE`: unpack FILE below /work/PATH; may be given more than once")
	flags.BoolVar(&f.network, "network", false, "let the command reach the network")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long unpacking and command may take together")
	flags.Int64Var(&f.memory, "memory-mb", 0, "memory in `MiB`, instead of [worker.sandbox] memory_limit_mb")
	flags.Int64Var(&f.cpu, "cpu-seconds", 0, "CPU time in `seconds`, instead of [worker.sandbox] cpu_seconds")
	flags.Int64Var(&f.address, "address-space-mb", 0, "address space in `MiB`, -1 for no limit, instead of the memory's limit")
	flags.Int64Var(&f.fsmb, "file-mb", 0, "largest file in `MiB` that the command may write, instead of max_extracted_mb")
	flags.StringVar(&f.report, "report", "", "write the agent's report as JSON to `file`")
	return c
}

// limitKeys are the keys that flags of run stand in for, and whose bounds they
// have.
var limitKeys = []struct{ flag, key string }{
	{"memory-mb", "worker.sandbox.memory_limit_mb"},
	{"cpu-seconds", "worker.sandbox.cpu_seconds"},
	{"address-space-mb", "scanners.<name>.address_space_mb"},
	{"file-mb", "worker.sandbox.max_extracted_mb"},
}

func checkLimits(c *cobra.Command) error {
	for _, l := range limitKeys {
		if !c.Flags().Changed(l.flag) {
			continue
		}
		n, err := c.Flags().GetInt64(l.flag)
		if err == nil {
			err = config.CheckInteger(l.key, n)
		}
		if err != nil {
			return usagef("--%s %s", l.flag, err)
		}
	}
	return nil
}

func (a *app) run(ctx context.Context, argv []string, f runFlags) (err error) {
	conf, err := a.load()
	if err != nil {
		return err
	}
	s, err := a.openWith(ctx, conf, nil)
	if err != nil {
		return runError(err)
	}
	defer func() { err = s.end(err) }()
	spec, err := f.spec(s, argv)
	if err != nil {
		return err
	}
	progress := ui.NewProgress(a.stderr)
	defer progress.Stop()
	progress.Start("probing the room")
	p, err := s.Probe(ctx, sandbox.Room{
		Scanner: spec.Label.Scanner, Image: spec.Image, Limits: spec.Limits, StartTimeout: spec.StartTimeout,
		WorkerRoom: s.Images != nil && s.Images.IsWorkers(spec.Image),
	})
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		progress.Stop()
		return runError(a.refusal(err))
	}
	progress.Start("running " + argv[0])
	out, err := s.Run(ctx, spec)
	progress.Stop()
	for _, w := range scan.CloseJob(ctx, s.Runtime, spec.Label.Worker, spec.Label.Job) {
		s.left = true
		a.say("sandboxctl: warning: %s", w)
	}
	return errors.Join(a.writeReport(f.report, out), a.ran(out, err))
}

// spec is the run that the flags ask for.
func (f runFlags) spec(s *session, argv []string) (sandbox.RunSpec, error) {
	label := wire.Label{Worker: s.base.Worker, Job: s.base.Job, Scanner: f.room, Attempt: 1}
	if f.room == "" {
		label.Scanner = "run"
		if s.Walls {
			return sandbox.RunSpec{}, usagef("--room is missing: runtime %q runs a command in the room of a scanner, one of %s", s.Name(), s.Rooms)
		}
	}
	if err := label.Validate(); err != nil {
		return sandbox.RunSpec{}, usagef("--room: %s", err)
	}
	if f.timeout < time.Millisecond || f.timeout > 24*time.Hour {
		return sandbox.RunSpec{}, usagef("--timeout is %s, want one between 1ms and 24h", f.timeout)
	}
	image, err := f.image(s)
	if err != nil {
		return sandbox.RunSpec{}, err
	}
	entries, artifact, err := f.inputs(s.config.Worker.Sandbox.MaxArtifactMB)
	if err != nil {
		return sandbox.RunSpec{}, err
	}
	limits := s.base.Limits
	override(f.memory, &limits.MemoryMB)
	override(f.memory, &limits.AddressSpaceMB)
	override(f.cpu, &limits.CPUSeconds)
	override(f.address, &limits.AddressSpaceMB)
	override(f.fsmb, &limits.FileMB)
	if err := limits.Validate(); err != nil {
		return sandbox.RunSpec{}, usagef("%s", err)
	}
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Entries: entries, Policy: s.base.Policy, Artifact: artifact},
		Argv:   argv, StartTimeout: s.base.StartTimeout, Timeout: f.timeout, Network: f.network, Limits: limits, Image: image, Label: label,
	}, nil
}

// image is what the run is opened from: that of the scanner whose room was
// named, or the runtime's.
func (f runFlags) image(s *session) (string, error) {
	if s.Images == nil {
		return "", nil
	}
	if f.room == "" {
		if s.Images.Configured != "" || s.Images.Worker != "" {
			return s.Images.Of("run", "")
		}
		return "", usagef("--image is missing: runtime %q runs a command in an image; give --image, or --room with the name of a scanner that has one", s.Name())
	}
	return s.Images.Of(f.room, s.config.Scanners[f.room].Image)
}

func override(flag int64, field *int64) {
	if flag != 0 {
		*field = flag
	}
}

// input is one --file or --archive.
type input struct {
	entry wire.Entry
	path  string
}

// inputs are the entries of the flags. The largest file is the run's artifact,
// and the others travel inside the manifest.
func (f runFlags) inputs(maxMB int64) ([]wire.Entry, sandbox.Artifact, error) {
	var all []input
	for _, value := range slices.Concat(prefixed(wire.File, f.files), prefixed(wire.Archive, f.archives)) {
		in, err := parseInput(value.kind, value.text)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, in)
	}
	largest := -1
	for i := range all {
		if largest < 0 || all[i].entry.Size > all[largest].entry.Size {
			largest = i
		}
	}
	var entries []wire.Entry
	var artifact sandbox.Artifact
	for i, in := range all {
		e := in.entry
		if i == largest {
			var err error
			if artifact, err = openArtifact(in.path, maxMB); err != nil {
				return nil, nil, &statusError{ExitRunFailed, err}
			}
			e.URL, e.Size = wire.ArtifactURL, artifact.Size()
		} else {
			b, err := readSmall(in.path, wire.InlineCap)
			if err != nil {
				return nil, nil, &statusError{ExitRunFailed, fmt.Errorf("%w (only the largest input may be large)", err)}
			}
			e.Inline, e.Size = b, int64(len(b))
		}
		entries = append(entries, e)
	}
	return entries, artifact, nil
}

type flagValue struct {
	kind wire.EntryKind
	text string
}

func prefixed(kind wire.EntryKind, values []string) []flagValue {
	var all []flagValue
	for _, v := range values {
		all = append(all, flagValue{kind, v})
	}
	return all
}

func parseInput(kind wire.EntryKind, value string) (input, error) {
	at, file, ok := strings.Cut(value, "=")
	if !ok || file == "" {
		return input{}, usagef("--%s %q, want PATH=FILE", kind, value)
	}
	path, err := wire.ParseRelPath(at)
	if err != nil {
		return input{}, usagef("--%s %q: %s", kind, value, err)
	}
	e := wire.Entry{Path: path, Kind: kind}
	if err := e.Validate(); err != nil {
		return input{}, usagef("--%s %q: %s", kind, value, err)
	}
	artifact, err := bundle.FileArtifact(file)
	if err != nil {
		return input{}, &statusError{ExitRunFailed, plainPathError(err)}
	}
	e.Size = artifact.Size()
	return input{e, file}, nil
}

// ran prints what the command left and turns its end into a status.
func (a *app) ran(out sandbox.RunOutput, err error) error {
	if err != nil {
		return runFailure(out, err)
	}
	stdout := out.Stdout
	if term.IsTerminal(int(a.stdout.Fd())) {
		stdout = []byte(ui.CleanText(string(stdout)))
	}
	if _, err := a.stdout.Write(stdout); err != nil {
		return &statusError{ExitRunFailed, fmt.Errorf("writing the command's output: %w", err)}
	}
	if r := out.Refused(); r != nil {
		return &statusError{ExitRunRefused, fmt.Errorf("the artifact was refused: %s", refusalWords(r))}
	}
	for line := range strings.Lines(out.StderrTail) {
		fmt.Fprintln(a.stderr, ui.Clean(strings.TrimRight(line, "\r\n")))
	}
	switch {
	case out.Status == nil:
		return &statusError{exitSignal + int(unix.SignalNum(out.Result.Signal)), fmt.Errorf("the command was killed by %s", out.Result.Signal)}
	case *out.Status == 0:
		return nil
	}
	return quiet(*out.Status)
}

func runFailure(out sandbox.RunOutput, err error) error {
	status := ExitRunFailed
	switch {
	case sandbox.CodeOf(err) == sandbox.CodeCommandMissing:
		status = ExitRunNotFound
		if out.Result.Failure != nil && out.Result.Failure.Code == wire.CodeNotExecutable {
			status = ExitRunNotExecutable
		}
	case sandbox.KindOf(err) == sandbox.RunTimeout:
		status = ExitRunTimeout
	}
	return &statusError{status, err}
}

// runError gives an error of this side the status that run has for it.
func runError(err error) error {
	if q, is := errors.AsType[quiet](err); is && q == ExitFailed {
		return quiet(ExitRunFailed)
	}
	if statusOf(context.Background(), err) == ExitFailed {
		return &statusError{ExitRunFailed, err}
	}
	return err
}

// writeReport writes what the agent reported. A run without a result has no
// report, and leaves no file that could be taken for one.
func (a *app) writeReport(path string, out sandbox.RunOutput) error {
	if path == "" || out.Result.Wire == 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return &statusError{ExitRunFailed, fmt.Errorf("writing the report: %w", plainPathError(err))}
	}
	if err := errors.Join(ui.JSON(file, out.Result), file.Close()); err != nil {
		return &statusError{ExitRunFailed, fmt.Errorf("writing the report: %w", err)}
	}
	return nil
}
