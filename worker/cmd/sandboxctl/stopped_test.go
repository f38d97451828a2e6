package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What a stopped command could not clean up is in its one line, and the end of
// its context is there once.
func TestTheLineOfAStoppedCommandNamesWhatIsLeft(t *testing.T) {
	by := &signalError{syscall.SIGTERM}
	left := errors.New("pod p-1 may be left, for a sweep to remove: no answer")
	cancelled := func(err error) *sandbox.Error {
		return &sandbox.Error{Kind: sandbox.Cancelled, Runtime: "kubernetes", Run: "j-s-1", Err: err}
	}
	const stopped, run = "stopped by SIGTERM", "stopped by SIGTERM; sandbox kubernetes: run j-s-1: cancelled: "
	for want, errs := range map[string][]error{
		stopped: {
			nil, by, cancelled(by), cancelled(nil), cancelled(context.Canceled), &statusError{ExitRunFailed, cancelled(by)}, errors.Join(cancelled(by), by),
			fmt.Errorf("sweeping: %w", &sandbox.Error{Kind: sandbox.Crashed, Detail: "listing", Err: context.Canceled}),
		},
		run + left.Error(): {
			cancelled(errors.Join(by, left)), cancelled(fmt.Errorf("%w; %w", by, left)), &statusError{ExitRunFailed, cancelled(errors.Join(by, left))},
			errors.Join(cancelled(errors.Join(by, left)), nil),
		},
		run + left.Error() + "; the bundle may be left: no answer": {
			cancelled(errors.Join(by, left, errors.Join(errors.New("the bundle may be left: no answer"), errors.New("no answer"), left))),
		},
		stopped + "; closing the runtime: " + left.Error(): {
			errors.Join(by, fmt.Errorf("closing the runtime: %w", left)), errors.Join(cancelled(by), fmt.Errorf("closing the runtime: %w", left)),
		},
		stopped + "; sandbox kubernetes: crashed (storage): the bundle may be left": {
			&sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeStorage, Runtime: "kubernetes", Detail: "the bundle may be left"},
		},
	} {
		for _, err := range errs {
			if got := (&app{}).stoppedBy(by, err); got.Error() != want || !errors.Is(got, by) {
				t.Errorf("%#v:\ngot  %s\nwant %s", err, got, want)
			}
		}
	}
}

// Whose the things are that are left, and where, is known to the command alone.
func TestTheLineOfAStoppedCommandSaysWhoseItIsThatIsLeft(t *testing.T) {
	a, by := &app{}, &signalError{syscall.SIGINT}
	a.leaves.Store(new("what is left of worker w1 (namespace n)"))
	for err, want := range map[error]string{
		by: "stopped by SIGINT", errors.New("pod p may be left"): "stopped by SIGINT; pod p may be left; what is left of worker w1 (namespace n)",
	} {
		if got := a.stoppedBy(by, err).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A second signal ends a command that still cleans up, and the line says what
// may be left.
func TestASecondSignalIsNotWaitedFor(t *testing.T) {
	again := make(chan struct{})
	close(again)
	a := &app{}
	a.busy.Store(1)
	a.leaves.Store(new("what is left of worker w1"))
	by := &signalError{syscall.SIGTERM}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(by)
	stuck, begun := make(chan struct{}), time.Now()
	defer close(stuck)
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		<-stuck
		return nil
	}}
	root.SetArgs(nil)
	err := a.execute(ctx, again, root)
	const want = "stopped by SIGTERM; a second signal came before all was cleaned up; what is left of worker w1"
	if got := a.stoppedBy(by, err).Error(); got != want || statusOf(ctx, err) != 143 || time.Since(begun) > idlePatience {
		t.Errorf("after %s: %s, status %d", time.Since(begun), got, statusOf(ctx, err))
	}
}

// The same event told twice is one signal, and a hang-up asks for nothing more.
func TestOnlyALaterSignalIsASecondOne(t *testing.T) {
	ctx, again, stop := withSignals(t.Context())
	defer stop()
	send := func(sig syscall.Signal) {
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	came := func(within time.Duration) bool {
		select {
		case <-again:
			return true
		case <-time.After(within):
			return false
		}
	}
	send(syscall.SIGTERM)
	<-ctx.Done()
	send(syscall.SIGINT)
	if came(repeated) {
		t.Error("an echo was taken for a second signal")
	}
	send(syscall.SIGHUP)
	if came(100 * time.Millisecond) {
		t.Error("a hang-up was taken for a second signal")
	}
	send(syscall.SIGINT)
	if !came(5 * time.Second) {
		t.Error("the second signal was not seen")
	}
}

// The number that service managers have to be told is the program's.
func TestTheDocumentedPatienceIsTheProgramsOwn(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/scan-worker.md")
	if err != nil {
		t.Fatal(err)
	}
	seconds := int(busyPatience.Seconds())
	for _, want := range []string{
		fmt.Sprintf("The whole clean-up has **%d seconds**", seconds), fmt.Sprintf("after the %d seconds", seconds),
		fmt.Sprintf("`TimeoutStopSec=%d`", seconds+10), fmt.Sprintf("`terminationGracePeriodSeconds: %d`", seconds+10),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
