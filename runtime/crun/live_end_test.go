package crun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestAScannerThatHangsIsARunTimeout(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, _ Flavour) {
		spec := scan("sleep", "600")
		spec.Timeout = time.Second
		if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.RunTimeout {
			t.Errorf("got %v, want a run timeout", err)
		}
	})
}

// running waits until the agent of the one run there is has taken its bundle.
func running(t *testing.T, r *Runtime, f Flavour) (dir string) {
	t.Helper()
	if !testkit.Eventually(30*time.Second, func() bool {
		works, _ := filepath.Glob(filepath.Join(r.bundlesDir(f), "*", "config.json"))
		if len(works) != 1 {
			return false
		}
		dir = filepath.Dir(works[0])
		name, _ := r.nameOf(f, dir)
		_, err := os.Stat(filepath.Join(dir, "work/manifest.json"))
		return errors.Is(err, os.ErrNotExist) && stateOf(r.rootDir(f), name) != nil
	}) {
		t.Fatal("it did not start")
	}
	return dir
}

func TestACancelledSandboxLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, scan("sleep", "600"))
			done <- err
		}()
		running(t, r, f)
		cancel()
		if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		nothingInState(t, r)
	})
}

// Where one hierarchy limits nothing, the program itself is in the run's cgroup,
// to be found there whether it has made its container or not.
func TestTheProgramStandsInItsRunsCgroup(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		l, fault := r.host.layout(f)
		if fault != nil || l.freezer == "" {
			t.Skip("not run: there is no freezer hierarchy of cgroup v1 here")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, scan("sleep", "600"))
			done <- err
		}()
		name, _ := r.nameOf(f, running(t, r, f))
		g := group{layout: l, parent: r.config.CgroupParent, run: name}
		parent := fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())
		found := slices.ContainsFunc(processes(g.dir(l.freezer)), func(pid int) bool {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			return strings.Contains(string(status), parent)
		})
		if !found {
			t.Errorf("the program is not among %v", processes(g.dir(l.freezer)))
		}
		cancel()
		<-done
	})
}

// A program that is only starting has no container to kill and nothing in the
// cgroup yet: it is asked for again until there is.
func TestARunIsOverSoonAtWhateverMomentItIsCancelled(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, _ Flavour) {
		for _, after := range []time.Duration{2, 5, 10, 20, 40, 80, 160} {
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			time.AfterFunc(after*time.Millisecond, cancel)
			_, err := r.Run(ctx, scan("sleep", "600"))
			if sandbox.KindOf(err) != sandbox.Cancelled {
				t.Errorf("after %d ms: %v", after, err)
			}
			if took := time.Since(began); took >= grace {
				t.Errorf("after %d ms: it went on for %s", after, took)
			}
		}
		nothingInState(t, r)
	})
}

func TestClosingTheRuntimeEndsItsSandboxes(t *testing.T) {
	r := live(t, "runc", nil)
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), scan("sleep", "600"))
		done <- err
	}()
	running(t, r, Runc)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
}

// Runs of one label, such as two probes of one room, never meet.
func TestRunsOfOneLabelMayBeMadeAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, _ Flavour) {
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if out, err := r.Run(t.Context(), scan("readlink", "/tmp")); err != nil || string(out.Stdout) != "work/tmp\n" {
					t.Errorf("got %q, %v", out.Stdout, err)
				}
			})
		}
		group.Wait()
	})
}

func TestAfterARunTheProgramKnowsTheContainerNoMore(t *testing.T) {
	each(t, func(t *testing.T, r *Runtime, f Flavour) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, scan("sleep", "2"))
			done <- err
		}()
		name, _ := r.nameOf(f, running(t, r, f))
		p, fault := r.finder.find(t.Context(), r.config.Program)
		if fault != nil {
			t.Fatal(fault)
		}
		p.root = r.rootDir(f)
		if exit, err := p.call(t.Context(), stateArgs(name)...); err != nil || exit.Status != 0 {
			t.Errorf("while it runs: %+v, %v", exit, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if exit, err := p.call(t.Context(), stateArgs(name)...); err != nil || exit.Status == 0 {
			t.Errorf("afterwards: %+v, %v", exit, err)
		}
		nothingInState(t, r)
	})
}

// A worker that is killed kills nothing: its container runs on, until somebody
// sweeps.
func TestWhatAKilledWorkerLeavesIsSwept(t *testing.T) {
	for _, f := range Flavours {
		t.Run(string(f), func(t *testing.T) {
			r := live(t, string(f), nil)
			cmd := exec.Command("/proc/self/exe")
			cmd.Args = []string{"worker", r.config.Program, r.config.Rooms, r.config.StateDir, r.config.CgroupParent}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			dir := running(t, r, f)
			others := sandbox.SweepPolicy{Worker: "killed"}
			if report, err := r.Sweep(t.Context(), others); err != nil || len(report.Removed) > 0 {
				t.Errorf("while it lives: %+v, %v", report, err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, policy := range []sandbox.SweepPolicy{{Worker: "another"}, {Worker: "another", OlderThan: time.Hour}} {
				if report, err := r.Sweep(t.Context(), policy); err != nil || len(report.Removed) > 0 {
					t.Errorf("%+v: %+v, %v", policy, report, err)
				}
			}
			report, err := r.Sweep(t.Context(), others)
			if err != nil || len(report.Removed) != 1 || report.Removed[0].Name != filepath.Base(dir) || report.Removed[0].Worker != "killed" {
				t.Errorf("got %+v, %v", report, err)
			}
			nothingInState(t, r)
		})
	}
}

// The moments differ from one host to the other, and what holds is the same
// for all of them.
func TestWheneverAWorkerIsKilledASweepLeavesNothing(t *testing.T) {
	r := live(t, "runc", nil)
	for i := range 10 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"worker", r.config.Program, r.config.Rooms, r.config.StateDir, r.config.CgroupParent}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(i) * 40 * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	for range 2 {
		if _, err := r.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "killed"}); err != nil {
			t.Error(err)
		}
		if !trying(t, r) {
			break
		}
		<-time.After(tried) // it may be another worker's that lives
	}
	// A directory that says not yet whose it is is left for a minute.
	young, err := filepath.Glob(filepath.Join(r.bundlesDir(Runc), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range young {
		if _, err := os.Stat(filepath.Join(dir, "owner.json")); err != nil {
			remove(t, dir)
		}
	}
	nothingInState(t, r)
}

// trying says whether a cgroup is there that is only tried.
func trying(t *testing.T, r *Runtime) bool {
	t.Helper()
	l, fault := r.host.layout(Runc)
	if fault != nil {
		t.Fatal(fault)
	}
	return slices.ContainsFunc(l.all, func(mount string) bool {
		left, _ := filepath.Glob(filepath.Join(mount, r.config.CgroupParent, tryPrefix+"*"))
		return len(left) > 0
	})
}

// A name of the longest parts there are, below a state directory with some room
// and one with none for the socket that runsc makes of it.
func TestTheLongestNamesRun(t *testing.T) {
	for what, deeper := range map[string]string{"a short path": "", "a long path": strings.Repeat("x", 60)} {
		t.Run(what, func(t *testing.T) {
			long := strings.Repeat("s", 63)
			for _, f := range Flavours {
				t.Run(string(f), func(t *testing.T) {
					if f == Runsc && (host{}).ramdisk() {
						t.Skip("not run: runsc is refused on a root that can't be left")
					}
					r := live(t, string(f), func(c *Config) {
						c.StateDir += deeper
						if err := os.Rename(filepath.Join(c.Rooms, "scanner"), filepath.Join(c.Rooms, long)); err != nil {
							t.Fatal(err)
						}
						if _, err := WritePin(t.Context(), filepath.Join(c.Rooms, long)); err != nil {
							t.Fatal(err)
						}
					})
					spec := scan("cat", "/proc/self/status")
					spec.Label.Scanner, spec.Label.Job = long, strings.Repeat("j", 63)
					if out, err := r.Run(t.Context(), spec); err != nil || out.Status == nil || *out.Status != 0 {
						t.Errorf("got %+v, %v", out, err)
					}
				})
			}
		})
	}
}
