package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

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

// reap waits for every child of this process that nobody has claimed, as a pid
// 1 has to, for as long as the test goes on.
func (c *claims) reap(stop <-chan struct{}) (orphans int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, pid := range process.Children(os.Getpid()) {
			c.mu.Lock()
			if !c.held[pid] {
				if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && got == pid {
					orphans++
				}
			}
			c.mu.Unlock()
		}
		select {
		case <-stop:
			return orphans
		case <-tick.C:
		}
	}
}

// pid1 makes many short calls beside a reaper, each of which leaves an orphan.
func pid1() int {
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""),
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var reaper claims
	stop, orphans := make(chan struct{}), make(chan int)
	go func() { orphans <- reaper.reap(stop) }()
	for i := range 100 {
		exit, err := process.Run(context.Background(), process.Spec{
			Path: "/bin/sh", Argv: []string{"sh", "-c", "(exit 0 &) ; exit 7"}, Reaper: &reaper,
		})
		if err != nil || exit.Status != 7 {
			fmt.Fprintf(os.Stderr, "call %d: %+v, %v\n", i, exit, err)
			return 1
		}
	}
	close(stop)
	if n := <-orphans; n == 0 {
		fmt.Fprintln(os.Stderr, "no orphan was reaped, so nothing was shown")
		return 1
	}
	return 0
}

func TestBesideAPid1ThatReapsNoChildsEndIsLost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make a pid namespace")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"child", "pid1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
