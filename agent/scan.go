package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/collect"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/oom"
	"github.com/batleforc/batlehub-sandbox/agent/internal/reap"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// scan runs the scanner and returns its stdout, if that is an answer.
func (r *run) scan(ctx context.Context, c *clock) []byte {
	ctx, done := c.run(ctx)
	defer func() { r.result.Phases.RunMS = done().Milliseconds() }()
	over := make(chan struct{})
	streams, err := collect.Open(wire.StdoutCap, wire.StderrTailCap, func() { close(over) })
	if err != nil {
		r.failed(wire.StageLaunch, fmt.Errorf("making the scanner's pipes: %w", err))
		return nil
	}
	kills := r.killCounter()
	before, _ := kills.Kills()
	p, err := launch.Start(launch.Spec{
		Argv: r.manifest.Argv, Dir: r.opts.WorkDir, Home: r.opts.Home, Path: r.opts.Path,
		Limits: r.manifest.Limits, Stdout: streams.Stdout, Stderr: streams.Stderr, Namespace: r.opts.Namespace,
		Closed: r.exchanges,
	})
	if err != nil {
		streams.Drain()
		r.stopped(ctx, wire.StageLaunch, err)
		return nil
	}
	streams.Started()
	exit, timedOut, err := r.await(ctx, p, over)
	output := streams.Drain()
	r.used(exit, output)
	after, _ := kills.Kills()
	r.result.OOMKilled = after > before
	switch {
	case err != nil:
		r.failed(wire.StageCollect, err)
	case output.Over:
		r.result.Ending = wire.EndStdoutCap
	case timedOut:
		r.result.Ending = wire.EndTimedOut
	case exit.Status.Signaled():
		r.result.Ending, r.result.Signal = wire.EndSignaled, signalName(exit.Status.Signal())
		return output.Stdout
	default:
		status := exit.Status.ExitStatus()
		r.result.Ending, r.result.Status = wire.EndExited, &status
		return output.Stdout
	}
	return nil
}

// killCounter counts the processes that the kernel kills for want of memory,
// where everything in the pid namespace belongs to the run. Elsewhere a count
// would tell of other programs' processes too.
func (r *run) killCounter() oom.Counter {
	if !r.opts.Namespace || !reap.IsInit() {
		return oom.Counter{}
	}
	return oom.Find(oom.Root, 1)
}

type ended struct {
	exit reap.Exit
	err  error
}

// await returns when the scanner has ended and nothing of it is left. It ends
// it when ctx does or when it prints too much.
func (r *run) await(ctx context.Context, p *launch.Process, over <-chan struct{}) (exit reap.Exit, timedOut bool, err error) {
	done := make(chan ended, 1)
	go func() {
		exit, err := p.Wait()
		done <- ended{exit, err}
	}()
	defer func() {
		// A fault of the agent's own leaves no scanner behind either.
		if v := recover(); v != nil {
			p.Kill()
			<-done
			panic(v)
		}
	}()
	r.step("collect")
	r.store.rehearse(&r.result)
	select {
	case e := <-done:
		return e.exit, false, e.err
	case <-over:
	case <-ctx.Done():
		timedOut = errors.Is(context.Cause(ctx), errTimedOut)
	}
	p.Kill()
	e := <-done
	return e.exit, timedOut, e.err
}

func (r *run) used(exit reap.Exit, output collect.Output) {
	r.result.Usage = wire.Usage{
		UserMS: int64(exit.User / time.Millisecond), SystemMS: int64(exit.System / time.Millisecond), MaxRSSKiB: exit.MaxRSSKiB,
	}
	r.result.StdoutBytes, r.result.StderrBytes = output.StdoutBytes, output.StderrBytes
	r.result.StderrTail = output.Stderr
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
