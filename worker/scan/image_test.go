package scan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox/sandboxtest"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// keeper is a runtime that keeps something for the runs of a job.
type keeper struct {
	*sandboxtest.Runtime
	mu     sync.Mutex
	closed []string
	runs   int
	err    error
	ended  error
}

func (k *keeper) CloseJob(ctx context.Context, worker, job string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.runs, k.ended = append(k.closed, worker+"/"+job), len(k.Runs()), ctx.Err()
	return k.err
}

func TestEveryRunIsOpenedFromItsScannersImage(t *testing.T) {
	rt := sandboxtest.New("fake")
	r := request(t, rt, "a", "b", "c")
	r.Scanners[0].Image, r.Scanners[1].Image, r.Scanners[2].Image = "one", "two", "one"
	if _, err := Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var images []string
	for _, s := range rt.Runs() {
		images = append(images, s.Label.Scanner+" "+s.Image)
	}
	if want := []string{"a one", "b two", "c one"}; !slices.Equal(images, want) {
		t.Errorf("%q, want %q", images, want)
	}
}

func TestEachDistinctImageIsProbedOnceForAllItsScannersCommands(t *testing.T) {
	rt := sandboxtest.New("fake")
	r := request(t, rt, "a", "b", "c", "d")
	r.Scanners[0].Image, r.Scanners[1].Image, r.Scanners[2].Image, r.Scanners[3].Image = "one", "two", "one", "one"
	r.Scanners[3].Command = "a"
	r.Base.WorkerImage, r.Base.StartTimeout = "two", time.Hour
	if _, err := Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	probes := rt.Calls().Probes
	if len(probes) != 2 || probes[0].Image != "one" || !slices.Equal(probes[0].Commands, []string{"a", "c"}) || probes[0].WorkerRoom ||
		probes[1].Image != "two" || !slices.Equal(probes[1].Commands, []string{"b"}) || !probes[1].WorkerRoom {
		t.Errorf("%+v", probes)
	}
	if probes[0].StartTimeout != time.Hour || probes[1].StartTimeout != time.Hour {
		t.Error("a probe may not take as long to start as a run")
	}
}

// Whatever a scan comes to, its job is closed once, and after its last run.
func TestTheJobIsClosedOnceWhateverTheScanCameTo(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(context.CancelFunc) (sandbox.RunOutput, error)
		runs int
	}{
		"an answer": {func(context.CancelFunc) (sandbox.RunOutput, error) { return sandboxtest.Exited(0, nil), nil }, 2},
		"a failure": {func(context.CancelFunc) (sandbox.RunOutput, error) { return crashed() }, 2},
		"a refusal": {func(context.CancelFunc) (sandbox.RunOutput, error) { return refused() }, 2},
		"an end": {func(cancel context.CancelFunc) (sandbox.RunOutput, error) {
			cancel()
			return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Cancelled, Err: context.Canceled}
		}, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		k := &keeper{Runtime: sandboxtest.New("fake")}
		k.OnRun = func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) { return c.run(cancel) }
		_, _ = Do(ctx, request(t, k, "a", "b"))
		if !slices.Equal(k.closed, []string{"w/j"}) || k.runs != c.runs || k.ended != nil {
			t.Errorf("%s: closed %q after %d runs, under a context that has %v", name, k.closed, k.runs, k.ended)
		}
		cancel()
	}
}

func TestAFailedProbeClosesTheJobToo(t *testing.T) {
	k := &keeper{Runtime: sandboxtest.New("fake")}
	k.OnProbe = func(_ context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
		return sandboxtest.Fails("fake", room, wire.AssertNetwork, "a canary answered", ""), nil
	}
	if _, err := Do(t.Context(), request(t, k, "a")); err == nil || len(k.closed) != 1 || k.runs != 0 {
		t.Errorf("%v, closed %q after %d runs", err, k.closed, k.runs)
	}
}

func TestAJobThatCantBeClosedIsAWarningAndTheAnswerStands(t *testing.T) {
	k := &keeper{Runtime: sandboxtest.New("fake"), err: errors.New("the bucket is gone")}
	report, err := Do(t.Context(), request(t, k, "a"))
	if err != nil || report.Verdict != Clean || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "j may be left, for a sweep to remove: the bucket is gone") {
		t.Errorf("%v, %+v", err, report)
	}
}
