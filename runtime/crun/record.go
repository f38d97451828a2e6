package crun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/crun/record"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Recording is what a traced run came to.
type Recording struct {
	// Output is the run's answer.
	Output sandbox.RunOutput
	// Calls are the system calls that agent and scanner made, sorted.
	Calls []string
}

// Profile is the recording's seccomp profile as a file for Config.Profiles,
// and the digest that pins it. others are further recordings of the same
// scanner: one run shows what one input needs.
func (r Recording) Profile(others ...Recording) (file []byte, pin string, err error) {
	calls := r.Calls
	for _, o := range others {
		calls = append(calls[:len(calls):len(calls)], o.Calls...)
	}
	p, err := record.Profile(calls, runtime.GOARCH)
	if err != nil {
		return nil, "", err
	}
	return record.Encode(p)
}

// Record makes one run with strace, at that path or on PATH, attached to the
// container from its agent's first instruction on. Everything else is as it is
// in Run: the agent is pid 1, and the same profile and limits hold. It is many
// times as slow, which the spec's timeouts have to allow for. runsc can't be
// recorded: its sandboxes make no system call of their own.
func (r *Runtime) Record(ctx context.Context, spec sandbox.RunSpec, strace string) (Recording, error) {
	recording, fault := r.record(ctx, spec, bundle.Manifest(spec, r.config.Canaries), strace)
	if fault != nil {
		return recording, fail.Named(fault, Name, spec.Label)
	}
	return recording, nil
}

// RecordProbe is Record for a probe of a room. A scanner's own profile holds in
// its probes too, and so has to have what an agent calls to assert the walls.
func (r *Runtime) RecordProbe(ctx context.Context, room sandbox.Room, strace string) (Recording, error) {
	m := bundle.ProbeManifest(room, r.config.Worker, r.config.Canaries)
	m.Probe.MemoryWall = true
	m.TimeoutMS *= probesSlower
	recording, fault := r.record(ctx, sandbox.RunSpec{StartTimeout: probesSlower * probeStart}, m, strace)
	if fault != nil {
		return recording, fail.Named(fault, Name, m.Label)
	}
	return recording, nil
}

// probesSlower is how many times longer a probe may take while it is traced.
const probesSlower = 5

func (r *Runtime) record(ctx context.Context, spec sandbox.RunSpec, m *wire.Manifest, strace string) (Recording, *sandbox.Error) {
	tracer, err := lookPath(strace)
	if err != nil {
		return Recording{}, noEngine("strace, which records, can't be found", err, "install strace")
	}
	var calls []string
	answer, fault := r.runWith(ctx, spec, m, false,
		func(ctx context.Context, e engine, g group, dir *bundle.Dir, name string) (process.Exit, error) {
			var exit process.Exit
			var err error
			calls, exit, err = e.trace(ctx, tracer, g, dir.Path(), name)
			return exit, err
		})
	if fault != nil {
		return Recording{}, fault
	}
	if m.Probe != nil {
		return Recording{Output: sandbox.RunOutput{Result: *answer.Result}, Calls: calls}, nil
	}
	out, fault := bundle.Output(answer.Result, answer.Stdout)
	return Recording{Output: out, Calls: calls}, fault
}

// errRunsc is asking for what can't be recorded.
var errRunsc = errors.New("runsc's sandboxes make no system calls that could be recorded")

// trace makes the container, attaches the tracer, starts it and waits for its
// end.
func (e engine) trace(ctx context.Context, tracer string, g group, dir, name string) ([]string, process.Exit, error) {
	if e.flavour == Runsc {
		return nil, process.Exit{}, errRunsc
	}
	if exit, err := e.drive(ctx, g, createArgs(e.flavour, e.facts, dir, name), name); err != nil || exit.Status != 0 {
		return nil, exit, err
	}
	pid, err := e.pid(ctx, name)
	if err != nil {
		return nil, process.Exit{}, err
	}
	file := filepath.Join(dir, "trace")
	type ended struct {
		exit process.Exit
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		exit, err := process.Run(ctx, process.Spec{
			Path: tracer, Argv: []string{tracer, "-f", "-qq", "-s", "64", "-o", file, "-p", strconv.Itoa(pid)}, Reaper: e.reaper,
		})
		done <- ended{exit, err}
	}()
	if err := awaitTracer(ctx, pid); err != nil {
		return nil, process.Exit{}, err
	}
	if exit, err := e.call(ctx, startArgs(name)...); err != nil || exit.Status != 0 {
		return nil, exit, err
	}
	tracing := <-done
	if tracing.err != nil || ctx.Err() != nil {
		return nil, process.Exit{Status: -1, Stderr: tracing.exit.Stderr}, tracing.err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, process.Exit{}, err
	}
	defer f.Close()
	calls, err := record.Calls(f, AgentPath)
	return calls, process.Exit{}, err
}

// pid is the container's first process.
func (p program) pid(ctx context.Context, name string) (int, error) {
	exit, err := p.call(ctx, stateArgs(name)...)
	if err != nil {
		return 0, err
	}
	var state struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(exit.Stdout), &state); err != nil || state.Pid < 2 {
		return 0, fmt.Errorf("%s state says %.128q", p.path, exit.Stdout)
	}
	return state.Pid, nil
}

// awaitTracer waits until every thread of the process is traced.
func awaitTracer(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !traced(pid) {
		select {
		case <-ctx.Done():
			return errors.New("strace did not attach to the container; is ptrace allowed?")
		case <-tick.C:
		}
	}
	return nil
}

func traced(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil || strings.Contains(string(b), "\nTracerPid:\t0\n") {
			return false
		}
	}
	return true
}
