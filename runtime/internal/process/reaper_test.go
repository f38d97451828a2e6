package process_test

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
)

// claims is a reaper as a pid 1 has one: whatever it has not been told of, it
// waits for itself.
type claims struct {
	mu     sync.Mutex
	held   map[int]bool
	made   int
	greedy bool
}

func (c *claims) Spawn(start func() (int, error)) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := start()
	if err != nil {
		return nil, err
	}
	if c.greedy {
		// One that does not keep its word.
		var info unix.Siginfo
		_ = unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED, nil)
		return func() {}, nil
	}
	if c.held == nil {
		c.held = make(map[int]bool)
	}
	c.held[pid] = true
	c.made++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, pid)
	}, nil
}

func TestAChildIsClaimedFromTheReaperUntilItsEnd(t *testing.T) {
	var reaper claims
	spec := part("exit", "3")
	spec.Reaper = &reaper
	exit, err := process.Run(t.Context(), spec)
	if err != nil || exit.Status != 3 {
		t.Errorf("got %+v, %v", exit, err)
	}
	if reaper.made != 1 || len(reaper.held) != 0 {
		t.Errorf("%d claims were made, %d are held", reaper.made, len(reaper.held))
	}
}

func TestAChildThatWasReapedBySomebodyElseIsSaidToBe(t *testing.T) {
	spec := part("exit", "0")
	spec.Reaper = &claims{greedy: true}
	if _, err := process.Run(t.Context(), spec); !process.IsReaped(err) {
		t.Errorf("got %v", err)
	}
	if process.IsReaped(nil) || process.IsReaped(exec.ErrNotFound) || !process.IsReaped(errors.Join(syscall.ECHILD)) {
		t.Error("other errors are taken for it")
	}
}

func TestAChildThatCantBeStartedIsNotClaimed(t *testing.T) {
	var reaper claims
	if _, err := process.Run(t.Context(), process.Spec{Path: "/no/such/program", Argv: []string{"x"}, Reaper: &reaper}); !process.IsMissing(err) {
		t.Errorf("got %v", err)
	}
	if reaper.made != 0 {
		t.Error("it was claimed")
	}
}
