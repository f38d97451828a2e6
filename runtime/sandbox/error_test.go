package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAnErrorIsFoundThroughWhateverWrapsIt(t *testing.T) {
	for _, kind := range []sandbox.Kind{
		sandbox.StartTimeout, sandbox.RunTimeout, sandbox.Crashed, sandbox.ResultInvalid, sandbox.Refused, sandbox.Cancelled,
	} {
		e := &sandbox.Error{Kind: kind, Code: sandbox.CodeInternal, Runtime: "r", Err: context.Canceled}
		for _, err := range []error{e, fmt.Errorf("scanning: %w", e), errors.Join(errors.New("first"), e)} {
			if sandbox.KindOf(err) != kind || sandbox.CodeOf(err) != sandbox.CodeInternal {
				t.Errorf("%v: kind %q, code %q", err, sandbox.KindOf(err), sandbox.CodeOf(err))
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v: the cause is lost", err)
			}
		}
	}
	if sandbox.KindOf(errors.New("other")) != "" || sandbox.KindOf(nil) != "" || sandbox.CodeOf(nil) != "" {
		t.Error("an error of another type has a kind")
	}
}

func TestAnErrorIsOneLineThatNamesTheRuntimeTheRunAndWhatToDo(t *testing.T) {
	e := &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeHostRefused, Runtime: "bwrap", Run: "job-scanner-1",
		Detail: "bwrap exited 1\nand no result came back", Stderr: "noise\nbwrap: setting up uid map: Permission denied\n",
		Hint: "see the\ndocs", Err: errors.New("two\nlines"),
	}
	const want = `sandbox bwrap: run job-scanner-1: refused (host_refused): bwrap exited 1 and no result came back: ` +
		`two lines: "bwrap: setting up uid map: Permission denied"; see the docs`
	if got := e.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (&sandbox.Error{Kind: sandbox.StartTimeout, Runtime: "r"}).Error(); got != "sandbox r: start timeout" {
		t.Errorf("got %q", got)
	}
	if strings.Contains(e.Error(), "\n") {
		t.Error("the error has two lines")
	}
}

func TestOfAGoProgramsCrashItsCauseIsSaidAndNoStack(t *testing.T) {
	const stack = "\ngoroutine 1 [running]:\nmain.main()\n\t/src/agent/scan.go:84 +0xf3\n"
	for _, c := range []struct{ stderr, want string }{
		{"runtime: failed to create new OS thread\nfatal error: newosproc\n" + stack, `: "fatal error: newosproc"`},
		{"panic: a fault\n" + stack, `: "panic: a fault"`},
		{stack, ""},
		{"runtime.goexit({})\n\t/go/src/runtime/asm_amd64.s:1700 +0x1", ""},
		{"runc: config.json:3 is wrong", `: "runc: config.json:3 is wrong"`},
	} {
		e := &sandbox.Error{Kind: sandbox.Crashed, Runtime: "r", Stderr: c.stderr}
		if got, want := e.Error(), "sandbox r: crashed"+c.want; got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.stderr, got, want)
		}
	}
}

func TestAProbeReportsItsFirstFailure(t *testing.T) {
	report := sandbox.ProbeReport{Runtime: "r", Hint: "do this", Verdicts: []wire.Verdict{
		{ID: wire.AssertResult, Outcome: wire.Pass},
		{ID: wire.AssertRoom, Outcome: wire.Warn},
		{ID: wire.AssertNetwork, Outcome: wire.Fail, Detail: "192.0.2.1:80 answered"},
		{ID: wire.AssertMemory, Outcome: wire.Fail},
	}}
	e, ok := errors.AsType[*sandbox.ProbeError](report.Err())
	if !ok || e.Verdict.ID != wire.AssertNetwork || e.Hint != "do this" {
		t.Fatalf("got %v", report.Err())
	}
	if got := e.Error(); got != `probe failed for runtime "r": no-network — 192.0.2.1:80 answered` {
		t.Errorf("got %q", got)
	}
	report.Verdicts = report.Verdicts[:2]
	if report.Err() != nil {
		t.Errorf("a warning fails the probe: %v", report.Err())
	}
	if err := (sandbox.ProbeReport{Runtime: "r"}).Err(); err == nil {
		t.Error("a probe that reported nothing passes")
	}
	if err := (sandbox.ProbeReport{Runtime: "none", Skipped: "no walls"}).Err(); err != nil {
		t.Errorf("a skipped probe fails: %v", err)
	}
}
