package crun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/record"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
)

// errRunsc is asking for what can't be recorded.
var errRunsc = errors.New("runsc's sandboxes make no system calls that could be recorded")

// traceError is a run that was not recorded to its end.
type traceError struct{ err error }

func (e *traceError) Error() string { return e.err.Error() }
func (e *traceError) Unwrap() error { return e.err }

func untraced(format string, args ...any) error { return &traceError{fmt.Errorf(format, args...)} }

// trace makes the container, attaches the tracer, starts it and waits for its
// end.
func (e engine) trace(ctx context.Context, path string, g group, dir, name string) ([]string, process.Exit, error) {
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
	t, err := e.attach(ctx, path, dir, pid)
	if err != nil {
		return nil, process.Exit{}, err
	}
	defer t.close()
	if err := t.await(ctx, pid); err != nil {
		return nil, process.Exit{}, err
	}
	if exit, err := e.call(ctx, startArgs(name)...); err != nil || exit.Status != 0 {
		return nil, exit, err
	}
	<-t.ended
	if ctx.Err() != nil {
		return nil, process.Exit{Status: -1, Stderr: t.exit.Stderr}, t.err
	}
	if err := t.fault(); err != nil {
		return nil, process.Exit{}, err
	}
	calls, err := t.calls(ctx)
	return calls, process.Exit{}, err
}

// tracer is a running strace. What it writes comes through a FIFO and is read at
// once, so that a scanner that makes calls without an end fills no disk.
type tracer struct {
	// open holds the FIFO open for writing: while it does there is no end of file.
	open, read *os.File
	// ended is closed when strace has, as exit and err say.
	ended chan struct{}
	exit  process.Exit
	err   error
	// parsed is closed when all is read, and names and wrong are what was.
	parsed chan struct{}
	names  []string
	wrong  error
}

// attach starts the tracer on a process.
func (e engine) attach(ctx context.Context, path, dir string, pid int) (*tracer, error) {
	fifo := filepath.Join(dir, "trace")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: fifo, Err: err}
	}
	open, err := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	read, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		open.Close()
		return nil, err
	}
	t := &tracer{open: open, read: read, ended: make(chan struct{}), parsed: make(chan struct{})}
	go func() {
		defer close(t.ended)
		t.exit, t.err = process.Run(ctx, process.Spec{
			Path: path, Argv: []string{path, "-f", "-qq", "-s", "64", "-o", fifo, "-p", strconv.Itoa(pid)}, Reaper: e.reaper,
		})
	}()
	go func() {
		defer close(t.parsed)
		t.names, t.wrong = record.Calls(read, AgentPath)
		// What can't be read must not hold up strace, and the run with it.
		_, _ = io.Copy(io.Discard, read)
	}()
	return t, nil
}

// close lets go of the FIFO: a strace that still writes ends by that.
func (t *tracer) close() {
	_ = t.open.Close()
	_ = t.read.Close()
}

// await waits until every thread of the process is traced.
func (t *tracer) await(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !traced(pid) {
		select {
		case <-t.ended:
			if err := t.fault(); err != nil {
				return err
			}
			return untraced("strace ended before the run had begun")
		case <-ctx.Done():
			return untraced("strace did not attach to the container; is ptrace allowed?")
		case <-tick.C:
		}
	}
	return nil
}

// fault says how strace ended, unless it ended as it should: with the last of
// what it traced. A scanner goes on without it, and what that calls is unknown.
func (t *tracer) fault() error {
	said := strings.TrimSpace(t.exit.Stderr)
	if said != "" {
		said = fmt.Sprintf(": %.512q", said)
	}
	switch {
	case t.err != nil:
		return untraced("starting strace: %w", t.err)
	case t.exit.Signal != 0:
		return untraced("strace was killed by %s before the run's end%s; record again", fail.Signal(t.exit.Signal), said)
	case t.exit.Status != 0:
		return untraced("strace exited %d%s", t.exit.Status, said)
	}
	return nil
}

// calls are the calls that were traced, once strace has ended. What it left
// behind may hold the FIFO open, and that has no end then.
func (t *tracer) calls(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	_ = t.open.Close()
	select {
	case <-t.parsed:
	case <-ctx.Done():
		return nil, untraced("strace has ended and what it wrote has not: something else holds it open; record again")
	}
	if t.wrong != nil {
		return nil, &traceError{t.wrong}
	}
	return t.names, nil
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
