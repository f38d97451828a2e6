package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// The exit statuses of every command but run, which passes a scanner's own on.
const (
	// ExitClean: it worked, and nothing was found.
	ExitClean = 0
	// ExitFindings: it worked, and something was found.
	ExitFindings = 1
	// ExitUsage: the command line or the configuration is wrong.
	ExitUsage = 2
	// ExitFailed: there is no answer, for a reason on this side.
	ExitFailed = 3
	// ExitRefused: the artifact was refused, which is an answer about it.
	ExitRefused = 4
	// exitSignal is added to the number of the signal that ended a command.
	exitSignal = 128
)

// The exit statuses of run beside a scanner's own. They are those of timeout,
// env and the shells.
const (
	// ExitRunRefused: the artifact was refused.
	ExitRunRefused = 123
	// ExitRunTimeout: extraction and scanner took longer than they may.
	ExitRunTimeout = 124
	// ExitRunFailed: there is no answer, for a reason on this side.
	ExitRunFailed = 125
	// ExitRunNotExecutable: the command is in the room and can't be executed.
	ExitRunNotExecutable = 126
	// ExitRunNotFound: the command is not in the room.
	ExitRunNotFound = 127
)

// statusError is an error with its exit status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &statusError{ExitUsage, fmt.Errorf(format, args...)}
}

// quiet is a status without words: they were printed already.
type quiet int

func (quiet) Error() string { return "" }

// statusOf is the exit status that err stands for.
func statusOf(ctx context.Context, err error) int {
	if s, stopped := errors.AsType[*signalError](context.Cause(ctx)); stopped && err != nil {
		return exitSignal + int(s.signal)
	}
	if q, is := errors.AsType[quiet](err); is {
		return int(q)
	}
	if s, is := errors.AsType[*statusError](err); is {
		return s.status
	}
	switch {
	case err == nil:
		return ExitClean
	case config.IsConfig(err), sandbox.CodeOf(err) == sandbox.CodeUnsafe, sandbox.CodeOf(err) == sandbox.CodeConfig:
		return ExitUsage
	}
	return ExitFailed
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string {
	return "stopped by " + unix.SignalName(e.signal)
}

// repeated is how long after the first signal another one is somebody's wish,
// and no longer the same event told twice: a terminal's Ctrl-C reaches a whole
// group, some of which pass it on.
const repeated = 500 * time.Millisecond

// withSignals ends the context at the first SIGINT, SIGTERM or, unless that is
// ignored as nohup has it, SIGHUP of a terminal that goes away. What is cleaned
// up by then takes a bounded time, and ending before it is done leaves something
// behind; whoever wants that asks once more, by a SIGINT or a SIGTERM, which
// again tells.
func withSignals(parent context.Context) (ctx context.Context, again <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done, second := make(chan struct{}), make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel(&signalError{s.(syscall.Signal)})
				case s != syscall.SIGHUP && time.Since(first) >= repeated:
					close(second)
					return
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, second, func() {
		close(done)
		cancel(nil)
	}
}
