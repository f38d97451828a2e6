package sandboxtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox/sandboxtest"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func spec(argv ...string) sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: argv, Timeout: time.Minute,
		Limits: wire.DefaultLimits(), Label: wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1},
	}
}

type artifact string

func (artifact) Key() string   { return "" }
func (a artifact) Size() int64 { return int64(len(a)) }
func (a artifact) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader([]byte(a))), nil
}

func TestARuntimeWithoutAFileSystemIsAnOrdinaryOne(t *testing.T) {
	var r sandbox.Runtime
	fake := sandboxtest.New("memory")
	r = fake
	fake.Handle("count", func(_ context.Context, c sandboxtest.Call) sandboxtest.Answer {
		return sandboxtest.Answer{Status: len(c.Argv), Stdout: append(c.Files["lock.json"], c.Files["pkg"]...), Stderr: "done"}
	})
	s := spec("count", "two")
	lock, err := wire.ParseRelPath("lock.json")
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := wire.ParseRelPath("pkg")
	if err != nil {
		t.Fatal(err)
	}
	s.Bundle.Entries = []wire.Entry{{Path: lock, Kind: wire.File, Inline: []byte("{}"), Size: 2}, {Path: pkg, Kind: wire.File, URL: wire.ArtifactURL}}
	s.Bundle.Artifact = artifact("bytes")
	out, err := r.Run(t.Context(), s)
	if err != nil || *out.Status != 2 || string(out.Stdout) != "{}bytes" || out.StderrTail != "done" {
		t.Errorf("got %+v, %v", out, err)
	}
	if r.Name() != "memory" || len(fake.Runs()) != 1 || fake.Runs()[0].Argv[1] != "two" {
		t.Errorf("the runs are %+v", fake.Runs())
	}
}

func TestErrorsAreOfTheOneTypeWhateverTheProgramDoes(t *testing.T) {
	fake := sandboxtest.New("memory")
	fake.Handle("hang", func(ctx context.Context, _ sandboxtest.Call) sandboxtest.Answer {
		<-ctx.Done()
		return sandboxtest.Answer{}
	})
	fake.Handle("flood", func(context.Context, sandboxtest.Call) sandboxtest.Answer {
		return sandboxtest.Answer{Stdout: make([]byte, wire.StdoutCap+1)}
	})
	hang := spec("hang")
	hang.Timeout = 20 * time.Millisecond
	climbing := spec("hang")
	climbing.Label.Scanner = "../x"
	foreign := spec("hang")
	foreign.Bundle.Entries = []wire.Entry{{Kind: wire.Archive, URL: "file:///etc/passwd"}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		spec sandbox.RunSpec
		kind sandbox.Kind
		code sandbox.Code
	}{
		"a timeout":         {t.Context(), hang, sandbox.RunTimeout, ""},
		"too much output":   {t.Context(), spec("flood"), sandbox.ResultInvalid, sandbox.CodeStdoutCap},
		"no such program":   {t.Context(), spec("other"), sandbox.Crashed, sandbox.CodeCommandMissing},
		"no argv":           {t.Context(), spec(), sandbox.Refused, sandbox.CodeConfig},
		"a label":           {t.Context(), climbing, sandbox.Refused, sandbox.CodeConfig},
		"a URL of the host": {t.Context(), foreign, sandbox.Refused, sandbox.CodeConfig},
		"an ended context":  {cancelled, spec("hang"), sandbox.Cancelled, ""},
	} {
		_, err := fake.Run(c.ctx, c.spec)
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Kind != c.kind || e.Code != c.code || e.Runtime != "memory" || e.Run != c.spec.Label.String() {
			t.Errorf("%s: got %v, want %s (%s)", name, err, c.kind, c.code)
		}
	}
}

func TestASignalIsAnAnswerWithoutAStatus(t *testing.T) {
	fake := sandboxtest.New("memory")
	fake.Handle("die", func(context.Context, sandboxtest.Call) sandboxtest.Answer {
		return sandboxtest.Answer{Signal: "SIGSEGV"}
	})
	out, err := fake.Run(t.Context(), spec("die"))
	if err != nil || out.Status != nil || out.Result.Signal != "SIGSEGV" || out.Result.Ending != wire.EndSignaled {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestAScriptAnswersRunAfterRun(t *testing.T) {
	fake := sandboxtest.New("fake")
	broken := errors.New("broken")
	fake.OnRun = sandboxtest.Script(
		sandboxtest.Step{Output: sandboxtest.Exited(1, []byte("one"))},
		sandboxtest.Step{Err: broken},
		sandboxtest.Step{Err: &sandbox.Error{Kind: sandbox.StartTimeout}},
	)
	if out, err := fake.Run(t.Context(), spec("x")); err != nil || *out.Status != 1 {
		t.Errorf("got %+v, %v", out, err)
	}
	if _, err := fake.Run(t.Context(), spec("x")); !errors.Is(err, broken) || sandbox.KindOf(err) != sandbox.Crashed {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if _, err := fake.Run(t.Context(), spec("x")); sandbox.KindOf(err) != sandbox.StartTimeout {
			t.Errorf("got %v", err)
		}
	}
}

func TestClosingEndsTheRunsInFlight(t *testing.T) {
	fake := sandboxtest.New("fake")
	fake.OnRun = sandboxtest.Script(sandboxtest.Step{Until: make(chan struct{})})
	started := make(chan struct{})
	slow := fake.OnRun
	fake.OnRun = func(ctx context.Context, s sandbox.RunSpec) (sandbox.RunOutput, error) {
		close(started)
		return slow(ctx, s)
	}
	done := make(chan error, 1)
	go func() {
		_, err := fake.Run(t.Context(), spec("x"))
		done <- err
	}()
	<-started
	if err := fake.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	if _, err := fake.Run(t.Context(), spec("x")); sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
	if !fake.Calls().Closed {
		t.Error("the call is not recorded")
	}
}

func TestRunsSideBySideAreCounted(t *testing.T) {
	fake := sandboxtest.New("fake")
	var both sync.WaitGroup
	both.Add(2)
	fake.OnRun = func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		both.Done()
		both.Wait()
		return sandboxtest.Exited(0, nil), nil
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _, _ = fake.Run(t.Context(), spec("x")) })
	}
	all.Wait()
	if got := fake.Calls().MostAtOnce; got != 2 {
		t.Errorf("%d at once, want 2", got)
	}
}

func TestProbesAndSweepsAreAnsweredAndRecorded(t *testing.T) {
	fake := sandboxtest.New("fake")
	room := sandbox.Room{Scanner: "s"}
	report, err := fake.Probe(t.Context(), room)
	if err != nil || report.Err() != nil || len(report.Verdicts) != len(wire.Assertions) {
		t.Errorf("got %+v, %v", report, err)
	}
	fake.OnProbe = func(context.Context, sandbox.Room) (sandbox.ProbeReport, error) {
		return sandboxtest.Fails("fake", room, wire.AssertNetwork, "a canary answered", "look at the policy"), nil
	}
	report, err = fake.Probe(t.Context(), room)
	if v, failed := report.Failed(); err != nil || !failed || v.ID != wire.AssertNetwork || report.Hint != "look at the policy" {
		t.Errorf("got %+v, %v", report, err)
	}
	if _, err := fake.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "w"}); err != nil {
		t.Error(err)
	}
	if c := fake.Calls(); len(c.Probes) != 2 || len(c.Sweeps) != 1 || c.Sweeps[0].Worker != "w" {
		t.Errorf("the calls are %+v", c)
	}
	if sandboxtest.Refused(wire.Refusal{Rule: "path"}).Refused().Rule != "path" {
		t.Error("a refusal is lost")
	}
}
