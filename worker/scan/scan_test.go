package scan

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox/sandboxtest"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

func request(t *testing.T, rt sandbox.Runtime, names ...string) Request {
	t.Helper()
	r := Request{
		Runtime: rt,
		Target:  scanner.Target{Artifact: bundle.BytesArtifact([]byte("x")), FileName: "x.tgz"},
		Base:    scanner.Base{Worker: "w", Job: "j", Work: "/work", Limits: wire.DefaultLimits(), Policy: wire.DefaultExtractPolicy()},
	}
	for _, name := range names {
		d, err := scanner.Define(config.Scanner{Name: name, Command: name, Findings: "status", Type: "command"})
		if err != nil {
			t.Fatal(err)
		}
		r.Scanners = append(r.Scanners, d)
	}
	return r
}

// answers makes a runtime whose scanners answer by their name.
func answers(byScanner map[string]func() (sandbox.RunOutput, error)) *sandboxtest.Runtime {
	rt := sandboxtest.New("fake")
	rt.OnRun = func(_ context.Context, s sandbox.RunSpec) (sandbox.RunOutput, error) {
		return byScanner[s.Label.Scanner]()
	}
	return rt
}

func exited(status int, stdout string) func() (sandbox.RunOutput, error) {
	return func() (sandbox.RunOutput, error) { return sandboxtest.Exited(status, []byte(stdout)), nil }
}

func refused() (sandbox.RunOutput, error) {
	return sandboxtest.Refused(wire.Refusal{Input: "artifact", Rule: "path", Detail: "it leaves"}), nil
}

func crashed() (sandbox.RunOutput, error) {
	return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Crashed, Runtime: "fake", Detail: "it died"}
}

func TestAScanIsOnlyAsGoodAsItsWorstAnswer(t *testing.T) {
	rt := answers(map[string]func() (sandbox.RunOutput, error){
		"clean": exited(0, ""), "found": exited(1, "bad"), "refused": refused, "crashed": crashed, "odd": exited(7, ""),
	})
	for _, c := range []struct {
		names []string
		want  Verdict
	}{
		{[]string{"clean"}, Clean},
		{[]string{"clean", "found"}, Findings},
		{[]string{"found", "refused", "clean"}, Refused},
		{[]string{"crashed", "refused", "found"}, Failed},
		{[]string{"found", "odd"}, Failed},
	} {
		report, err := Do(t.Context(), request(t, rt, c.names...))
		if err != nil || report.Verdict != c.want || len(report.Scanners) != len(c.names) || len(report.Rooms) != len(c.names) {
			t.Errorf("%v: %s, %v, %+v; want %s", c.names, report.Verdict, err, report, c.want)
		}
	}
}

func TestWithoutAProvenRoomNothingIsScanned(t *testing.T) {
	rt := sandboxtest.New("fake")
	rt.OnProbe = func(_ context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
		if room.Scanner == "b" {
			return sandboxtest.Fails("fake", room, wire.AssertNetwork, "a canary answered", "pull the cable"), nil
		}
		return sandboxtest.Holds("fake", room), nil
	}
	report, err := Do(t.Context(), request(t, rt, "a", "b", "c"))
	failed, is := errors.AsType[*sandbox.ProbeError](err)
	if !is || failed.Verdict.ID != wire.AssertNetwork || failed.Hint != "pull the cable" {
		t.Errorf("error %v", err)
	}
	if report.Verdict != Failed || len(rt.Runs()) != 0 || len(report.Rooms) != 2 || report.Rooms[1].Error == "" || len(report.Scanners) != 0 {
		t.Errorf("%d runs, %+v", len(rt.Runs()), report)
	}
}

func TestEachRoomIsProbedForItsScannersCommand(t *testing.T) {
	var probed []string
	rt := sandboxtest.New("fake")
	rt.OnProbe = func(_ context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
		probed = append(probed, room.Scanner+" "+room.Commands[0])
		return sandboxtest.Holds("fake", room), nil
	}
	if _, err := Do(t.Context(), request(t, rt, "a", "b")); err != nil || !slices.Equal(probed, []string{"a a", "b b"}) {
		t.Errorf("%v, %v", probed, err)
	}
}

func TestACancelledScanSaysSoAndStartsNothingMore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	rt := sandboxtest.New("fake")
	rt.OnRun = func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		cancel(stop)
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Cancelled, Runtime: "fake", Err: ctx.Err()}
	}
	report, err := Do(ctx, request(t, rt, "a", "b"))
	if !errors.Is(err, stop) || report.Verdict != Failed || len(rt.Runs()) != 1 {
		t.Errorf("%v, %d runs, %+v", err, len(rt.Runs()), report)
	}
}

// What a run that was ended could not take away is known from its error alone.
func TestAStoppedScansErrorIsThatOfTheRunItEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop, left := errors.New("stop"), errors.New("a pod may be left")
	rt := sandboxtest.New("fake")
	rt.OnRun = func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		cancel(stop)
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Cancelled, Runtime: "fake", Err: errors.Join(stop, left)}
	}
	if _, err := Do(ctx, request(t, rt, "a", "b")); !errors.Is(err, stop) || !errors.Is(err, left) {
		t.Error(err)
	}
}

func TestAnOptionalStepThatFailsIsANoteAndNoFailure(t *testing.T) {
	rt := sandboxtest.New("fake")
	rt.OnRun = func(_ context.Context, s sandbox.RunSpec) (sandbox.RunOutput, error) {
		if s.Argv[1] == "timeline" {
			return crashed()
		}
		return sandboxtest.Exited(0, []byte(`{"schema_version":3,"findings":[]}`)), nil
	}
	r := request(t, rt)
	d, err := scanner.Define(config.Scanner{Name: "postmortem", Timeline: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Scanners = []scanner.Definition{d}
	r.Target.Package = &scanner.Package{Ecosystem: "npm", Name: "x", Version: "1.0.0"}
	report, err := Do(t.Context(), r)
	if err != nil || report.Verdict != Clean || len(report.Scanners[0].Notes) != 1 || len(rt.Runs()) != 2 {
		t.Errorf("%v, %d runs, %+v", err, len(rt.Runs()), report)
	}
}

func TestAScannerThatCantScanThisIsAFailureAndNotSkipped(t *testing.T) {
	rt := sandboxtest.New("fake")
	r := request(t, rt)
	d, err := scanner.Define(config.Scanner{Name: "postmortem"})
	if err != nil {
		t.Fatal(err)
	}
	r.Scanners = []scanner.Definition{d}
	report, err := Do(t.Context(), r)
	if err != nil || report.Verdict != Failed || report.Scanners[0].Error == "" || len(rt.Runs()) != 0 {
		t.Errorf("%v, %+v", err, report)
	}
}
