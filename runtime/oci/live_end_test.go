package oci

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func (l *live) gone(name string) {
	l.t.Helper()
	if left := l.say("ps", "-a", "-q", "--filter", "name="+name); left != "" {
		l.t.Errorf("the container is left: %s", left)
	}
}

// seen waits until a container runs. It asks no more often than it has to (see
// callTime).
func (l *live) seen(name string) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		out, _ := exec.CommandContext(ctx, l.engine, "ps", "-q", "--filter", "name="+name).Output()
		cancel()
		if len(out) > 0 {
			return
		}
	}
	l.t.Error("the container never ran")
}

func TestACancelledRunLeavesNoContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spec := l.spec("sleep")
		name := ContainerName(spec.Label)
		go func() {
			l.seen(name)
			cancel()
		}()
		if _, err := l.Run(ctx, spec); sandbox.KindOf(err) != sandbox.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
		l.gone(name)
	})
}

// Whatever the engine was just doing.
func TestARunCancelledAtAnyTimeLeavesNoContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		for i, after := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
			spec := l.spec("sleep")
			spec.Label.Attempt = i + 1
			ctx, cancel := context.WithTimeout(t.Context(), after)
			if _, err := l.Run(ctx, spec); sandbox.KindOf(err) != sandbox.Cancelled {
				t.Errorf("after %s: got %v, want cancelled", after, err)
			}
			cancel()
			l.gone(ContainerName(spec.Label))
		}
	})
}

func TestAScannerThatTakesTooLongIsEndedByTheAgent(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		spec := l.spec("sleep")
		spec.Timeout = time.Second
		if _, err := l.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.RunTimeout {
			t.Errorf("got %v, want run_timeout", err)
		}
		l.gone(ContainerName(spec.Label))
	})
}

// A container whose first process never fetches its bundle.
func TestAnAgentThatNeverFetchesIsAStartTimeout(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		r := l.with(func(c *Config) { c.ExtraArgs = []string{"--entrypoint", "/usr/bin/tool"} })
		spec := l.spec("sleep")
		spec.StartTimeout = 3 * time.Second
		if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.StartTimeout {
			t.Errorf("got %v, want start_timeout", err)
		}
		l.gone(ContainerName(spec.Label))
	})
}

func TestAContainerThatSomebodyKillsIsACrashThatSaysSo(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		spec := l.spec("sleep")
		name := ContainerName(spec.Label)
		go func() {
			l.seen(name)
			l.say("kill", name)
		}()
		_, err := l.Run(t.Context(), spec)
		if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeNoResult || !strings.Contains(err.Error(), "ended by SIGKILL") {
			t.Fatalf("got %v, want a crash that names the signal", err)
		}
		if l.engine == Docker && !strings.Contains(err.Error(), "not for want of memory") {
			t.Errorf("the daemon knows that it was no lack of memory: %v", err)
		}
	})
}

func TestASweepTakesOwnContainersAndOldOnesAndNoOthers(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		orphan := func(name, worker string, deadline time.Time) string {
			l.say("run", "-d", "--name", name, "--network", "none", "--pull", "never", "--label", LabelWorker+"="+worker,
				"--label", LabelDeadline+"="+strconv.FormatInt(deadline.Unix(), 10), "--entrypoint", "/usr/bin/tool", l.image, "sleep")
			t.Cleanup(func() { _ = l.remove(context.Background(), l.mustFind(), name) })
			return name
		}
		now := time.Now()
		own := orphan(namePrefix+l.worker+"-own", l.worker, now.Add(time.Hour))
		young := orphan(namePrefix+l.worker+"-young", l.worker+"-other", now.Add(-time.Minute))
		old := orphan(namePrefix+l.worker+"-old", l.worker+"-other", now.Add(-48*time.Hour))
		l.say("network", "create", "--label", LabelWorker+"="+l.worker, namePrefix+l.worker+"-net")
		report, err := l.Sweep(t.Context(), sandbox.SweepPolicy{Worker: l.worker, OlderThan: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]string{}
		for _, o := range report.Removed {
			kinds[o.Name] = o.Kind
			if o.Age < 0 || o.Age > time.Hour {
				t.Errorf("the age of %s is %s", o.Name, o.Age)
			}
		}
		if kinds[own] != "container" || kinds[old] != "container" || kinds[namePrefix+l.worker+"-net"] != "network" || kinds[young] != "" {
			t.Errorf("removed %v", report.Removed)
		}
		l.gone(own)
		if l.say("ps", "-q", "--filter", "name="+young) == "" {
			t.Error("a young container of another worker was removed")
		}
	})
}

func (l *live) mustFind() *host {
	l.t.Helper()
	h, fault := l.Runtime.engine.find(context.Background())
	if fault != nil {
		l.t.Fatal(fault)
	}
	return h
}

func TestASweepLeavesRunsInFlightAlone(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spec := l.spec("sleep")
		done := make(chan error, 1)
		go func() {
			_, err := l.Run(ctx, spec)
			done <- err
		}()
		l.seen(ContainerName(spec.Label))
		report, err := l.Sweep(t.Context(), sandbox.SweepPolicy{Worker: l.worker})
		if err != nil || len(report.Removed) > 0 {
			t.Errorf("removed %v, %v", report.Removed, err)
		}
		cancel()
		if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
			t.Errorf("the run ended by itself: %v", err)
		}
	})
}

func TestAnEnginesDirectoriesAreGoneWithTheRun(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		l.must("env")
		if left, err := filepath.Glob(filepath.Join(l.config.RunDir, "*")); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
		if _, err := os.Stat(l.config.RunDir); err != nil {
			t.Error(err)
		}
	})
}
