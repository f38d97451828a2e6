package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestTheScannerIsStartedWithHomeAndPathAlone(t *testing.T) {
	t.Setenv("PLANTED_SECRET", "must not be seen")
	b := newBed(t, "facts")
	f := b.facts()
	want := []string{"HOME=" + b.work, "PATH=/usr/local/bin:/usr/bin:/bin"}
	if slices.Sort(f.Env); !slices.Equal(f.Env, want) {
		t.Errorf("environment %q, want %q", f.Env, want)
	}
	if f.Dir != b.work || f.Stdin != "" || !f.Session {
		t.Errorf("dir %q, stdin %q, own session %v", f.Dir, f.Stdin, f.Session)
	}
}

func TestArgvArrivesVerbatimAndNoShellReadsIt(t *testing.T) {
	odd := []string{"$HOME", "a b", "`id`", "$(id)", "*", "; rm -rf x", "'\"", "\\", "", "-", "--in", "ä\xff", "a\nb", "|", ">out"}
	b := newBed(t, append([]string{"facts"}, odd...)...)
	f := b.facts()
	// JSON replaces what is not UTF-8.
	odd[11] = "ä\uFFFD"
	if got := f.Args[3:]; !slices.Equal(got, odd) {
		t.Errorf("argv %q, want %q", got, odd)
	}
}

func TestTheScannerHasItsThreeDescriptorsAndNoOther(t *testing.T) {
	leak, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	// As one that a careless host program has left open for every child.
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	f := newBed(t, "facts").facts()
	for _, fd := range f.FDs {
		n, target, _ := strings.Cut(fd, " ")
		// What it has opened itself: the list, and what Go's runtime reads.
		if strings.HasPrefix(target, "/proc/") || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/fs/cgroup/") {
			continue
		}
		if n != "0" && n != "1" && n != "2" {
			t.Errorf("descriptor %s", fd)
		}
	}
	if !slices.Contains(f.FDs, "0 /dev/null") {
		t.Errorf("stdin is not /dev/null: %q", f.FDs)
	}
}

func TestTheScannerRunsUnderTheFilterWithoutNewPrivileges(t *testing.T) {
	f := newBed(t, "facts").facts()
	if f.Seccomp != "2" || f.NoNew != "1" {
		t.Errorf("Seccomp %q, NoNewPrivs %q, want 2 and 1", f.Seccomp, f.NoNew)
	}
	if b, err := os.ReadFile("/proc/self/status"); err != nil || !strings.Contains(string(b), "NoNewPrivs:\t0") {
		t.Logf("this process has no new privileges already, so the child alone can't be told (%v)", err)
	}
}

func TestTheScannerIgnoresNoSignalAndBlocksNone(t *testing.T) {
	f := newBed(t, "facts").facts()
	if f.Ignored != "0000000000000000" || f.Blocked != "0000000000000000" {
		t.Errorf("ignored %s, blocked %s, want none", f.Ignored, f.Blocked)
	}
}

func TestTheExitCodeIsZeroWhateverTheScannersStatus(t *testing.T) {
	for _, status := range []int{0, 1, 2, 64, 126, 127, 255} {
		r, stdout := newBed(t, "exit", strconv.Itoa(status)).exited(status)
		if stdout != "said on stdout\n" || r.StderrTail != "said on stderr\n" {
			t.Errorf("status %d: stdout %q, stderr %q", status, stdout, r.StderrTail)
		}
		if r.StdoutBytes != 15 || r.StderrBytes != 15 {
			t.Errorf("status %d: %d and %d bytes counted", status, r.StdoutBytes, r.StderrBytes)
		}
	}
}

func TestASignalThatKilledTheScannerIsNamed(t *testing.T) {
	for s, name := range map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"} {
		r, _ := newBed(t, "signal", strconv.Itoa(int(s))).run()
		if r.Ending != wire.EndSignaled || r.Signal != name || r.Status != nil {
			t.Errorf("%v: ending %s, signal %q, status %v", s, r.Ending, r.Signal, r.Status)
		}
	}
}

func TestAProgramThatCanNotBeStartedIsAFailureThatSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, program, code, detail string }{
		{"missing", filepath.Join(dir, "missing"), wire.CodeNotFound, "does not exist"},
		{"missing by name", "no-such-scanner-anywhere", wire.CodeNotFound, "looking for"},
		{"below a file", write("file", "", 0o755) + "/x", wire.CodeNotFound, "does not exist"},
		{"directory", dir, wire.CodeNotExecutable, "it is a directory"},
		{"no bit", write("plain", "#!/bin/sh\n", 0o644), wire.CodeNotExecutable, "no permission"},
		{"no format", write("text", "just text\n", 0o755), wire.CodeNotExecutable, "not a program of this machine"},
		{"empty", write("empty", "", 0o755), wire.CodeNotExecutable, "not a program of this machine"},
		{"no interpreter", write("script", "#!/no/such/interpreter\n", 0o755), wire.CodeNotExecutable, "its interpreter does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.m.Argv = []string{c.program}
			f := b.failedWith(wire.StageLaunch, c.code)
			if !strings.Contains(f.Detail, c.detail) {
				t.Errorf("detail %q does not say %q", f.Detail, c.detail)
			}
		})
	}
}

func TestAScannerThatClosesItsStreamsIsWaitedFor(t *testing.T) {
	_, stdout := newBed(t, "close").exited(7)
	if stdout != "before\n" {
		t.Errorf("stdout %q", stdout)
	}
}

func TestADaemonThatHoldsStdoutIsEndedAndNotWaitedFor(t *testing.T) {
	began := time.Now()
	_, stdout := newBed(t, "daemon").exited(0)
	pid, err := strconv.Atoi(strings.TrimSpace(stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err == nil {
		t.Errorf("process %d is left", pid)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNoOtherProcessOfTheHostIsTouched(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	other, err := os.StartProcess(self, []string{self, scannerMark, "bystander"}, &os.ProcAttr{Files: []*os.File{nil, write, nil}})
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	ready := make([]byte, 6)
	if _, err := read.Read(ready); err != nil {
		t.Fatal(err)
	}
	newBed(t, "daemon").exited(0)
	b := newBed(t, "hang")
	// As the program says it inside; here the pid is not 1.
	b.opts.Namespace, b.m.TimeoutMS = true, 100
	b.run()
	if err := other.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander is gone: %v", err)
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
	if state, err := other.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the bystander ended with %v (%v)", state, err)
	}
}

func TestAScannerThatStopsItsKeeperStillTimesOut(t *testing.T) {
	b := newBed(t, "stop-keeper")
	b.m.TimeoutMS = 200
	if r, _ := b.run(); r.Ending != wire.EndTimedOut {
		t.Errorf("ending %s", r.Ending)
	}
}

func TestACancelledRunLeavesNoProcessAndNoResult(t *testing.T) {
	b := newBed(t, "hang")
	b.writeManifest()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.opts = agent.WithSteps(b.opts, func(step string) {
		if step == "collect" {
			cancel()
		}
	})
	if got := agent.Run(ctx, b.in(), b.out(), b.opts); got != agent.ExitCancelled {
		t.Errorf("the agent ended with %d, want %d", got, agent.ExitCancelled)
	}
	if slices.Contains(b.leftOver(), "out.tar") {
		t.Error("there is a result")
	}
}

func TestRunsInOneProcessDoNotDisturbEachOther(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for range 3 {
				newBed(t, "daemon").exited(0)
				newBed(t, "exit", strconv.Itoa(i)).exited(i)
			}
		})
	}
}
