package crun

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// thief is a reaper that takes the exit status of the first children that it
// is told of, and keeps its word for the others.
type thief struct {
	mu           sync.Mutex
	steals, made int
	held         int
}

func (r *thief) Spawn(start func() (int, error)) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := start()
	if err != nil {
		return nil, err
	}
	r.made++
	if r.steals > 0 {
		r.steals--
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
			return nil, err
		}
		return func() {}, nil
	}
	r.held++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.held--
	}, nil
}

func TestShortCallsAreClaimedAndMadeAgainWhenTheirEndIsLost(t *testing.T) {
	script := filepath.Join(testkit.Dir(t), "program")
	put(t, script, "#!/bin/sh\necho crun version 1.8.1\nexit 0\n")
	chmod(t, script, 0o755)
	for steals, want := range map[int]struct {
		made int
		lost bool
	}{0: {1, false}, 1: {2, false}, 2: {3, false}, 3: {3, true}} {
		reaper := &thief{steals: steals}
		f := finder{reaper: reaper}
		p, fault := f.find(t.Context(), script)
		if (fault != nil) != want.lost || reaper.made != want.made || reaper.held != 0 {
			t.Errorf("%d stolen: got %v, %d calls, %d still claimed", steals, fault, reaper.made, reaper.held)
		}
		if want.lost {
			if !errors.Is(fault, unix.ECHILD) || fault.Code != sandbox.CodeNoEngine {
				t.Errorf("%d stolen: got %v", steals, fault)
			}
			continue
		}
		before := reaper.made
		if _, err := p.call(t.Context(), killArgs("name")...); err != nil || reaper.made != before+1 {
			t.Errorf("a kill: %v, %d claims more", err, reaper.made-before)
		}
	}
}

func TestACallThatFailsIsNotMadeAgain(t *testing.T) {
	reaper := &thief{}
	p := program{path: "/no/such/program", flavour: Runc, reaper: reaper}
	if _, err := p.call(t.Context(), "state", "x"); err == nil || reaper.made != 0 {
		t.Errorf("got %v after %d claims", err, reaper.made)
	}
}

// A run is never repeated: what it did can't be undone.
func TestARunWhoseEndIsLostIsACrashEvenWithAResult(t *testing.T) {
	r, log := stubbed(t, stub{run: "echo x >$work/out.tar"})
	reaper := &thief{}
	r.finder.reaper = reaper
	if _, fault := r.finder.find(t.Context(), r.config.Program); fault != nil {
		t.Fatal(fault)
	}
	reaper.steals = 1
	_, err := r.Run(t.Context(), scan("true"))
	e := asFault(t, err)
	if e.Kind != sandbox.Crashed || !errors.Is(err, unix.ECHILD) || !strings.Contains(e.Hint, "Reaper") {
		t.Errorf("got %v", err)
	}
	runs := 0
	for _, line := range logged(t, log) {
		if strings.HasPrefix(line, "run ") {
			runs++
		}
	}
	if runs != 1 {
		t.Errorf("it was run %d times", runs)
	}
}

func TestAProgramThatIsReplacedIsAskedAgain(t *testing.T) {
	script := filepath.Join(testkit.Dir(t), "program")
	var f finder
	for _, version := range []string{"crun version 1.8.1", "runc version 1.1.5+ds1"} {
		if err := os.RemoveAll(script); err != nil {
			t.Fatal(err)
		}
		put(t, script, "#!/bin/sh\necho "+version+"\necho commit: x\n")
		chmod(t, script, 0o755)
		p, fault := f.find(t.Context(), script)
		if fault != nil || p.version != version || string(p.flavour) != version[:4] {
			t.Errorf("got %+v, %v", p, fault)
		}
	}
	f = finder{flavour: Runsc}
	if p, fault := f.find(t.Context(), script); fault != nil || p.flavour != Runsc {
		t.Errorf("a configured flavour: %+v, %v", p, fault)
	}
}
