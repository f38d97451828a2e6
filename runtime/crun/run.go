package crun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// starter starts a container and waits for its end.
type starter func(ctx context.Context, e engine, g group, dir *bundle.Dir, name string) (process.Exit, error)

// run carries one manifest to an agent behind walls and its result back. Its
// errors lack the runtime's and the run's name.
func (r *Runtime) run(ctx context.Context, spec sandbox.RunSpec, m *wire.Manifest, thorough bool) (bundle.Answer, *sandbox.Error) {
	return r.runWith(ctx, spec, m, thorough,
		func(ctx context.Context, e engine, g group, dir *bundle.Dir, name string) (process.Exit, error) {
			return e.drive(ctx, g, runArgs(e.flavour, e.facts, dir.Path(), name), name)
		})
}

func (r *Runtime) runWith(
	ctx context.Context, spec sandbox.RunSpec, m *wire.Manifest, thorough bool, start starter,
) (bundle.Answer, *sandbox.Error) {
	ctx, clock, done, fault := bundle.Begin(ctx, &r.runs, spec, m)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return bundle.Answer{}, &sandbox.Error{Kind: sandbox.Cancelled, Err: context.Cause(ctx)}
	}
	if err := checkManifest(m); err != nil {
		return bundle.Answer{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	e, fault := r.ready(ctx, m.Label.Scanner, thorough)
	if fault != nil {
		return bundle.Answer{}, fault
	}
	if m.Probe != nil {
		m.Probe.OwnKernel = e.flavour == Runsc
		m.Limits.MemoryMB = min(m.Limits.MemoryMB, probeWallMB(e.flavour))
	}
	dir, err := r.store(e.flavour).Create(ctx, bundle.Request{
		Manifest: bundle.Sparing(m, Container{Limits: m.Limits}.pids()),
		Artifact: spec.Bundle.Artifact, Inside: outDir, Apart: bundleDir, Deadline: clock.Deadline(),
	})
	if err != nil {
		return bundle.Answer{}, fail.Of(err)
	}
	answer, fault := r.carry(ctx, clock, dir, e, m, start)
	return answer, fail.Left(fault, dir.Close())
}

// checkManifest refuses what no sandbox of this runtime could follow.
func checkManifest(m *wire.Manifest) error {
	if m.Probe == nil && m.Policy.MaxBytes>>20 >= m.Limits.MemoryMB {
		return fmt.Errorf("max_extracted_mb is %d and memory_limit_mb %d: the scratch space is memory, and has to be the smaller",
			m.Policy.MaxBytes>>20, m.Limits.MemoryMB)
	}
	return nil
}

// carry runs the program over dir and reads what the agent left there.
func (r *Runtime) carry(
	ctx context.Context, clock bundle.Clock, dir *bundle.Dir, e engine, m *wire.Manifest, start starter,
) (bundle.Answer, *sandbox.Error) {
	name, _ := r.nameOf(e.flavour, dir.Path())
	g := group{layout: e.layout, parent: r.config.CgroupParent, run: name}
	if fault := r.prepare(dir, e, g, m, clock); fault != nil {
		return bundle.Answer{}, fault
	}
	ctx, cancel := clock.Watch(ctx, dir)
	defer cancel()
	exit, err := start(ctx, e, g, dir, name)
	killed, known := g.oomKilled()
	switch {
	case ctx.Err() != nil && (err != nil || exit.Status != 0):
		fault := bundle.EndError(ctx, dir)
		fault.Stderr = exit.Stderr
		return bundle.Answer{}, fault
	case process.IsMissing(err):
		return bundle.Answer{}, missing(e.path, err)
	case process.IsReaped(err):
		return bundle.Answer{}, &sandbox.Error{
			Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Err: err,
			Detail: "something else in this process has taken the exit status of " + e.path,
			Hint:   "a program that reaps children has to hand the runtime a Reaper",
		}
	case err != nil:
		return bundle.Answer{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "starting " + e.path, Err: err}
	case exit.Status != 0:
		fault := e.broken(dir, exit, killed, known)
		if g.fullOfProcesses() {
			// gVisor's kernel needs threads of its own, and ends where it gets none.
			fault.Detail += fmt.Sprintf("; its limit of %d processes was met", Container{Limits: m.Limits}.pids())
		}
		return bundle.Answer{}, fault
	}
	answer, fault := collect(dir, exit, killed)
	if fault == nil && e.own != nil && answer.Result.Signal == "SIGSYS" {
		return bundle.Answer{}, &sandbox.Error{
			Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Signal: "SIGSYS", OOMKilled: killed,
			Detail: "the scanner made a system call that its own seccomp profile does not have",
			Hint:   "record the profile again, with an input like this one",
		}
	}
	return answer, fault
}

// prepare writes config.json and makes the run's cgroup.
func (r *Runtime) prepare(dir *bundle.Dir, e engine, g group, m *wire.Manifest, clock bundle.Clock) *sandbox.Error {
	tmp, err := os.Lstat(filepath.Join(e.room, "tmp"))
	if err != nil {
		return roomMissing(m.Label.Scanner, e.room, "it has no /tmp", err)
	}
	c := Container{
		Flavour: e.flavour, Room: e.room, TmpDir: tmp.IsDir(), Out: dir.Work(),
		Inputs: []Input{{Host: dir.Inputs(), Inside: bundleDir}},
		UID:    r.uid, GID: r.gid, UsernsBase: r.config.UsernsBase,
		Limits: m.Limits, CPUMilli: r.config.CPUMilli, Policy: m.Policy,
		CgroupPath: g.path(), Host: e.facts, Seccomp: e.own, Label: m.Label, Deadline: clock.Deadline(),
	}
	config, err := Spec(c)
	var document []byte
	if err == nil {
		document, err = Encode(config)
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	if err := writeNew(filepath.Join(dir.Path(), "config.json"), document); err != nil {
		return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "writing the OCI bundle", Err: err}
	}
	err = g.make(limitsOf(c))
	if err == nil && e.flavour == Runsc && e.layout.isV1() {
		err = g.join(limitsOf(c))
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "making the run's cgroup", Err: err}
	}
	return nil
}

// writeNew writes a file that is not there yet.
func writeNew(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// drive runs the program in the foreground until it ends. When ctx ends first,
// the container is killed by its name; if that does not end the program within
// its grace, everything in the cgroup and the program's own tree is.
func (e engine) drive(ctx context.Context, g group, args []string, name string) (process.Exit, error) {
	inner, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			e.stop(context.WithoutCancel(ctx), g, name, ended)
			kill()
		case <-ended:
		}
	}()
	exit, err := process.Run(inner, process.Spec{
		Path: e.path, Argv: append(append([]string{e.path}, global(e.flavour, e.root)...), args...),
		Env: environment(), Reaper: e.reaper, Started: g.adopt,
	})
	close(ended)
	<-watched
	return exit, err
}

// stop kills the container and waits for the program to end by itself. What was
// started and is not a container yet knows no name, and may not have entered
// its cgroup either: it is killed as soon as it has.
func (e engine) stop(ctx context.Context, g group, name string, ended <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	again := tick.C
	for {
		exit, err := e.call(ctx, killArgs(name)...)
		g.killContainer() // and not the program, which has its own to clean up
		if err == nil && exit.Status == 0 {
			again = nil // It works or not: once more would say nothing new.
		}
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-again:
		}
	}
}

// collect reads the result of a run that has ended well. Its end is not
// enough: the result has to be there and to be the agent's.
func collect(dir *bundle.Dir, exit process.Exit, oomKilled bool) (bundle.Answer, *sandbox.Error) {
	result, stdout, err := dir.Result()
	if err == nil {
		// From inside nobody can see the cgroup's events.
		result.OOMKilled = result.OOMKilled || oomKilled
		return bundle.Answer{Result: result, Stdout: stdout}, nil
	}
	e := bundle.ReadError(err)
	e.Stderr, e.OOMKilled = exit.Stderr, oomKilled
	if e.Code == sandbox.CodeNoResult {
		e.Kind, e.Err = sandbox.ResultInvalid, nil
		e.Detail = "the agent ended well and no result came back"
		e.Hint = docs
	}
	return bundle.Answer{}, e
}

// broken is a run that did not end well. Whatever stands at the result's place
// then, the agent did not get to say that it is the result.
func (e engine) broken(dir *bundle.Dir, exit process.Exit, oomKilled, known bool) *sandbox.Error {
	fault := &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Stderr: exit.Stderr, Hint: docs, OOMKilled: oomKilled,
	}
	how := fmt.Sprintf("%s exited %d", e.flavour, exit.Status)
	switch {
	case exit.Signal != 0:
		fault.Signal = fail.Signal(exit.Signal)
		how = fmt.Sprintf("%s was killed by %s", e.flavour, fault.Signal)
	case exit.Status > 128 && exit.Status <= 128+64:
		// The agent's end, as a shell would say it.
		fault.Signal = fail.Signal(syscall.Signal(exit.Status - 128))
		how = fmt.Sprintf("the agent was killed by %s", fault.Signal)
	case bundle.AgentExit(exit.Status) != "":
		how += fmt.Sprintf(" (agent: %s)", bundle.AgentExit(exit.Status))
		if dir.Full() {
			fault.Code = sandbox.CodeNoSpace
		}
	}
	fault.Detail = how + " and no result came back"
	switch {
	case oomKilled:
		fault.Code = sandbox.CodeOOMKilled
		fault.Hint = "raise memory_limit_mb if this scanner needs more"
	case !known && !neverStarted(dir, exit):
		// Such as when runc could not start it, and took the cgroup away.
		fault.Detail += "; whether memory ran out is not known"
	}
	return fault
}

// neverStarted says whether the program itself told why it could not start the
// agent.
func neverStarted(dir *bundle.Dir, exit process.Exit) bool {
	return exit.Signal == 0 && exit.Status == 1 && !dir.Fetched() && namesReason(exit.Stderr)
}

// namesReason says whether a program's complaint is in words that the kernel has
// for other things than a want of memory. A line about cgroups says nothing: runc
// looks in vain for its own once memory ran out under its first process.
func namesReason(stderr string) bool {
	for line := range strings.Lines(strings.ToLower(stderr)) {
		if strings.Contains(line, "cgroup") {
			continue
		}
		for _, words := range []string{"permission denied", "not permitted", "no such file", "not a directory", "invalid", "exec format"} {
			if strings.Contains(line, words) {
				return true
			}
		}
	}
	return false
}
