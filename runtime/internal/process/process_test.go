package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
)

// TestMain lets the test binary be the children of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[0] == "child" {
		os.Exit(child(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// child plays one part. A part that waits is ended by its test.
func child(args []string) int {
	switch args[0] {
	case "pid1":
		return pid1()
	case "exit":
		status, _ := strconv.Atoi(args[1])
		return status
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "flood":
		line := strings.Repeat("x", 1023) + "\n"
		for range 8 << 10 {
			os.Stdout.WriteString(line)
			os.Stderr.WriteString(line)
		}
		os.Stderr.WriteString("the end")
		return 0
	case "look":
		return look(args[1])
	case "wait":
		wait()
	case "family":
		return family(args[1])
	case "parent":
		spec := part("family", args[1])
		_, _ = process.Run(context.Background(), spec)
		return 0
	}
	wait()
	return 0
}

// look writes what a child sees of itself.
func look(to string) int {
	var b strings.Builder
	dir, _ := os.Getwd()
	stdin, _ := os.Readlink("/proc/self/fd/0")
	stdout, _ := os.Readlink("/proc/self/fd/1")
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	for _, s := range []string{dir, stdin, stdout, strconv.FormatBool(int(sid) == os.Getpid()), strings.Join(os.Environ(), ",")} {
		b.WriteString(s + "\n")
	}
	if err := os.WriteFile(to, []byte(b.String()), 0o600); err != nil {
		return 1
	}
	return 0
}

// family starts a child that starts a grandchild in a session of its own, and
// writes every pid.
func family(to string) int {
	f, err := os.OpenFile(to, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	if len(os.Args) < 4 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = append(append([]string{}, os.Args...), "last")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
	}
	wait()
	return 0
}

func part(args ...string) process.Spec {
	return process.Spec{Path: "/proc/self/exe", Argv: append([]string{"child"}, args...)}
}

func TestAChildsStatusAndSignalAreTold(t *testing.T) {
	exit, err := process.Run(t.Context(), part("exit", "7"))
	if err != nil || exit.Status != 7 || exit.Signal != 0 || exit.Killed {
		t.Errorf("got %+v, %v, want status 7", exit, err)
	}
	exit, err = process.Run(t.Context(), part("die"))
	if err != nil || exit.Signal != syscall.SIGKILL || exit.Killed {
		t.Errorf("got %+v, %v, want a SIGKILL that is not ours", exit, err)
	}
}

func TestAChildsPidIsItsOwnWhileItIsToldOf(t *testing.T) {
	spec := part("exit", "7")
	told := 0
	spec.Started = func(pid int) {
		told++
		// It ends, and its pid stays its own until it is waited for.
		if !eventually(func() bool { return state(pid) == "Z" }) {
			t.Errorf("the child is in state %q", state(pid))
		}
	}
	if exit, err := process.Run(t.Context(), spec); err != nil || exit.Status != 7 || told != 1 {
		t.Errorf("got %+v, %v, told %d times", exit, err, told)
	}
	spec.Path = "/nowhere"
	if _, err := process.Run(t.Context(), spec); err == nil || told != 1 {
		t.Errorf("a child that was not started: %v, told %d times", err, told)
	}
}

// state is a process's, in one letter, or empty.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(b), ") ")
	if err != nil || !found {
		return ""
	}
	return rest[:1]
}

func TestAMissingProgramIsAnError(t *testing.T) {
	_, err := process.Run(t.Context(), process.Spec{Path: "/nonexistent/engine", Argv: []string{"engine"}})
	if !process.IsMissing(err) {
		t.Errorf("got %v, want an error that IsMissing tells", err)
	}
}

func TestAFloodIsReadToItsEndAndItsTailKept(t *testing.T) {
	spec := part("flood")
	spec.Tail = 100
	exit, err := process.Run(t.Context(), spec)
	if err != nil || exit.Status != 0 {
		t.Fatalf("got %+v, %v", exit, err)
	}
	if len(exit.Stderr) != 100 || !strings.HasSuffix(exit.Stderr, "\nthe end") {
		t.Errorf("stderr is %d bytes ending %q, want the last 100", len(exit.Stderr), exit.Stderr[max(0, len(exit.Stderr)-20):])
	}
	if exit.Stdout != "" {
		t.Errorf("stdout was read: %d bytes", len(exit.Stdout))
	}
}

func TestOnlyTheHeadOfAnAnswerIsKept(t *testing.T) {
	spec := part("flood")
	spec.Head = 10
	exit, err := process.Run(t.Context(), spec)
	if err != nil || exit.Stdout != "xxxxxxxxxx" {
		t.Errorf("got stdout %q, %v", exit.Stdout, err)
	}
}

func TestAChildInheritsNothing(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://secret")
	to := filepath.Join(t.TempDir(), "seen")
	if exit, err := process.Run(t.Context(), part("look", to)); err != nil || exit.Status != 0 {
		t.Fatalf("got %+v, %v", exit, err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b), "/\n/dev/null\n/dev/null\ntrue\n\n"; got != want {
		t.Errorf("the child saw %q, want %q", got, want)
	}
}

func TestACancelledChildIsGoneWithEverythingBelowIt(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		awaitLines(pids, 2)
		cancel()
	}()
	exit, err := process.Run(ctx, part("family", pids))
	if err != nil || !exit.Killed || exit.Signal != syscall.SIGKILL {
		t.Errorf("got %+v, %v, want a kill", exit, err)
	}
	for _, pid := range readPids(t, pids) {
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := filepath.Join(t.TempDir(), "seen")
	if _, err := process.Run(ctx, part("look", to)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("the child was started")
	}
}

func TestAChildDiesWithAParentThatIsKilled(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	parent := exec.Command("/proc/self/exe")
	parent.Args = []string{"child", "parent", pids}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLines(pids, 1)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	first := readPids(t, pids)[0]
	if !eventually(func() bool { return !alive(first) }) {
		t.Error("the child outlived its parent")
	}
	for _, pid := range readPids(t, pids) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// A bwrap that lost its parent at the wrong moment waits for ever. What is
// looked for is exact, for the whole host is looked at.
func TestWhatIsLeftOfARunIsFoundByItsDirectoryAndKilled(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	start := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = append([]string{"child", "wait"}, args...)
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Before its exec, a child has this process's command line.
		if !eventually(func() bool {
			b, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
			return strings.HasPrefix(string(b), "child\x00wait\x00")
		}) {
			t.Fatal("the child did not start")
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	mine := []*exec.Cmd{
		start(nil, "--die-with-parent", "--bind", work, "/work"),
		start([]string{"PATH=/bin", "HOME=" + work, "X=1"}),
	}
	others := []*exec.Cmd{
		start(nil, "--bind", work, "/work"),
		start(nil, "--die-with-parent", "--bind", work+"2", "/work"),
		start(nil, "--die-with-parent", "--bind", work+"/in", "/work"),
		start([]string{"HOME=" + work + "/sub", "OLDHOME=" + work}),
	}
	if !process.KillRun(work) {
		t.Error("nothing was found")
	}
	for i, cmd := range mine {
		if alive(cmd.Process.Pid) {
			t.Errorf("process %d of the run is left", i)
		}
	}
	for i, cmd := range others {
		if !alive(cmd.Process.Pid) {
			t.Errorf("process %d, which is another's, was killed", i)
		}
	}
	if process.KillRun(work) {
		t.Error("something was found twice")
	}
}

// A bwrap's child that has not yet asked to die with it goes on when it is
// killed: it has become its program by then, and names no directory.
func TestWhatRunsInsideAKilledBwrapIsFoundByItsMount(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("not run: there is no bwrap on PATH")
	}
	base := t.TempDir()
	work := func(run string) string { return filepath.Join(base, run, "work") }
	orphan := func(run string) int {
		if err := os.MkdirAll(work(run), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bwrap, "--unshare-user", "--unshare-pid", "--as-pid-1", "--ro-bind", "/usr", "/usr",
			"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--bind", work(run), "/work", "/usr/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		inside := 0
		if !eventually(func() bool {
			for _, child := range process.Children(cmd.Process.Pid) {
				line, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
				if strings.HasPrefix(string(line), "/usr/bin/sleep") {
					inside = child
				}
			}
			return inside != 0
		}) {
			t.Error("nothing runs inside")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return inside
	}
	mine, other := orphan("run"), orphan("another-run")
	t.Cleanup(func() { _ = syscall.Kill(other, syscall.SIGKILL) })
	// What a janitor could not end before it removed the directory is found as well.
	if err := os.RemoveAll(work("run")); err != nil {
		t.Fatal(err)
	}
	if !process.KillRun(work("run")) || alive(mine) {
		t.Error("what ran inside is left")
	}
	if !alive(other) {
		t.Error("what ran inside another run's sandbox was killed")
	}
}

// Go ends threads whose goroutine leaves them locked, and a parent-death
// signal comes with the thread's end: a child must survive everything that the
// scheduler does meanwhile.
func TestAChildOutlivesTheThreadsOfOtherGoroutines(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pids := filepath.Join(t.TempDir(), "pids")
	done := make(chan process.Exit, 1)
	go func() {
		exit, _ := process.Run(ctx, part("family", pids))
		done <- exit
	}()
	awaitLines(pids, 2)
	for range 64 {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(ended)
		}()
		<-ended
	}
	select {
	case exit := <-done:
		t.Fatalf("the child ended: %+v", exit)
	default:
	}
	if !alive(readPids(t, pids)[0]) {
		t.Error("the child died with a thread")
	}
	cancel()
	<-done
}

func TestManyRunsLeaveNoDescriptorAndNoGoroutine(t *testing.T) {
	run := func() {
		if _, err := process.Run(t.Context(), part("exit", "0")); err != nil {
			t.Fatal(err)
		}
	}
	run()
	descriptors, goroutines := countDescriptors(t), runtime.NumGoroutine()
	for range 50 {
		run()
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if n := countDescriptors(t); n > descriptors {
		t.Errorf("%d descriptors, %d before", n, descriptors)
	}
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func readPids(t *testing.T, name string) []int {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func awaitLines(name string, n int) {
	eventually(func() bool {
		b, _ := os.ReadFile(name)
		return strings.Count(string(b), "\n") >= n
	})
}

// alive says whether a process runs; one that waits to be reaped does not.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// eventually asks until the answer is yes, for ten seconds at most.
func eventually(is func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		if is() {
			return true
		}
	}
	return is()
}

// wait waits for a signal.
func wait() {
	for {
		_ = syscall.Pause()
	}
}
