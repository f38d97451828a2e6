// Command sandbox-conformance runs the conformance suite against a runtime of
// this project, or against any executable that speaks the port's verbs.
//
//	sandbox-conformance --runtime bwrap
//	sandbox-conformance --runtime none --expect-no-walls
//	sandbox-conformance --runtime oci --engine podman --transport mount
//	sandbox-conformance --runtime oci --engine docker --transport storage --minio PATH
//	sandbox-conformance --runtime crun --program runc
//	sandbox-conformance --runtime crun --program runsc --expect-partial C35,W36
//	sandbox-conformance --runtime kubernetes --kubeconfig FILE --minio PATH
//	sandbox-conformance --adapter ./my-runtime
//
// It exits with 0 when the target passed (or, with --expect-no-walls, when
// exactly the walls fell, or, with --expect-partial, when exactly that part of
// the core was not claimed and the rest passed), 1 when it failed, 2 for a wrong command line, 3 when
// the suite itself broke or let a mutant live, and 4 when nothing failed but a
// part of the core was not claimed or not run, or the target can't be checked
// on this host at all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/conformance/targets"
)

// The statuses that the command exits with.
const (
	exitPass    = 0
	exitFail    = 1
	exitUsage   = 2
	exitBroken  = 3
	exitPartial = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == "worker" {
		if err := targets.RunAsWorker(ctx, args[1]); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFail
		}
		return exitPass
	}
	f, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitPass
	case err != nil:
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitUsage
	case f.list:
		list(stdout)
		return exitPass
	case len(f.merge) > 0:
		return merge(f, stdout, stderr)
	case f.bench > 0:
		return bench(ctx, f, stdout, stderr)
	case f.prepare:
		return prepare(ctx, f, stdout, stderr)
	}
	r, err := check(ctx, f, stdout)
	if errors.Is(err, targets.ErrNotRun) {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitPartial
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitBroken
	}
	if code := status(r); len(f.lacking) == 0 || code != exitPass && code != exitPartial {
		return code
	}
	return partial(r, f.lacking, stderr)
}

// status is what a report's verdict exits with.
func status(r *report.Report) int {
	switch {
	case r.Verdict == report.Error:
		return exitBroken
	case r.Control != nil:
		if r.Control.Held {
			return exitPass
		}
		return exitFail
	case r.Verdict == report.Pass:
		return exitPass
	case r.Verdict == report.Partial:
		return exitPartial
	}
	return exitFail
}

// opened is the session of a command line.
type opened struct {
	*conformance.Session
	target  *conformance.Target
	closing func() error
}

// Close closes the session, and ends what was started for its target.
func (o *opened) Close() error { return errors.Join(o.Session.Close(), o.closing()) }

// open makes the target and the session of a command line.
func open(ctx context.Context, f *flags, screen *screen) (*opened, error) {
	builder, err := targets.NewBuilder(ctx, f.source, f.cache)
	if err != nil && (f.agent == "" || f.hostile == "") {
		return nil, err
	}
	if builder == nil {
		builder = &targets.Builder{}
	}
	builder.Agent, builder.Hostile, builder.NoBuild = f.agent, f.hostile, f.noBuild
	options, err := optionsOf(ctx, f, builder)
	if err != nil {
		return nil, err
	}
	target, closing, err := targetOf(ctx, f, builder)
	if err != nil {
		return nil, err
	}
	options.Log = screen.spec
	session, err := conformance.Open(ctx, target, options)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return &opened{session, target, closing}, nil
}

func check(ctx context.Context, f *flags, stdout io.Writer) (*report.Report, error) {
	screen := newScreen(stdout, f)
	session, err := open(ctx, f, screen)
	if err != nil {
		return nil, err
	}
	screen.begin(session.target)
	session.Run(ctx)
	if f.mutants && len(session.target.Mutants) > 0 && ctx.Err() == nil {
		session.RunMutants(ctx, screen.mutant)
	}
	r := session.Report()
	if err := session.Close(); err != nil {
		return nil, fmt.Errorf("cleaning up: %w", err)
	}
	if ctx.Err() != nil {
		return nil, errors.New("interrupted; nothing was reported")
	}
	if err := report.Write(f.out, r); err != nil {
		return nil, err
	}
	screen.end(r, filepath.Join(f.out, r.Target.Name))
	return r, nil
}

// bench measures instead of checking.
func bench(ctx context.Context, f *flags, stdout, stderr io.Writer) int {
	session, err := open(ctx, f, newScreen(stdout, f))
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitBroken
	}
	list, err := session.Bench(ctx, f.bench)
	r := session.Report()
	err = errors.Join(err, session.Close())
	name := ""
	if err == nil {
		name, err = report.WriteBench(f.out, r.Target, r.Host, list)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitBroken
	}
	for _, b := range list {
		fmt.Fprintf(stdout, "%-22s min %.1f ms, p50 %.1f ms, p95 %.1f ms, max %.1f ms over %d runs\n", b.Name, b.MinMS, b.P50MS, b.P95MS, b.MaxMS, b.Runs)
	}
	fmt.Fprintln(stdout, name)
	return exitPass
}

// prepare fills the cache.
func prepare(ctx context.Context, f *flags, stdout, stderr io.Writer) int {
	builder, err := targets.NewBuilder(ctx, f.source, f.cache)
	if err == nil {
		err = builder.Prepare(ctx)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitBroken
	}
	fmt.Fprintln(stdout, builder.Cache)
	return exitPass
}

func list(w io.Writer) {
	for _, s := range conformance.Specs() {
		fmt.Fprintf(w, "%-5s %s\n      %s\n", s.ID, s.Title, s.Why)
	}
}

// merge writes one page over several reports.
func merge(f *flags, stdout, stderr io.Writer) int {
	var reports []*report.Report
	for _, name := range f.merge {
		r, err := report.Read(name)
		if err != nil {
			fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
			return exitUsage
		}
		reports = append(reports, r)
	}
	page, err := report.HTML(reports)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.out, "report.html"), page, 0o644)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-conformance: %v\n", err)
		return exitBroken
	}
	fmt.Fprintln(stdout, filepath.Join(f.out, "report.html"))
	return exitPass
}
