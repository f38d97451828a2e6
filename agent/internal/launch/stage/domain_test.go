package stage

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const markerScope = "test: what is in reach of a scanner"

// This test binary is also the scanner that looks at what it can reach.
func init() {
	if os.Args[0] == markerScope {
		reach(os.Args[1])
		os.Exit(0)
	}
}

// reach prints how calls to the outside, which is known by an abstract name,
// and to a child and a name of its own are answered.
func reach(outside string) {
	answer := func(what string, err error) {
		var e unix.Errno
		if name := "ok"; errors.As(err, &e) {
			fmt.Println(what, unix.ErrnoName(e))
		} else if err == nil {
			fmt.Println(what, name)
		} else {
			fmt.Println(what, err)
		}
	}
	answer("stream", connect("unix", outside))
	answer("datagram", connect("unixgram", outside+"-datagram"))
	answer("parent", unix.Kill(os.Getppid(), 0))
	own := "@own-" + outside[1:]
	l, err := net.Listen("unix", own)
	if err != nil {
		answer("listen", err)
		return
	}
	defer l.Close()
	answer("own", connect("unix", own))
	child := exec.Command("/bin/sleep", "3600")
	if err := child.Start(); err != nil {
		answer("start", err)
		return
	}
	answer("child", child.Process.Kill())
	_ = child.Wait()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", os.Getppid()))
	if err == nil {
		memory.Close()
	}
	answer("memory", err)
}

func connect(network, name string) error {
	conn, err := net.Dial(network, name)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("x"))
	return err
}

// reached starts the scanner and returns its answers by what was tried.
func reached(t *testing.T, change func(*order)) map[string]string {
	t.Helper()
	for _, file := range []string{"/bin/sleep", Executable} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("not run: %v", err)
		}
	}
	name := fmt.Sprintf("@scope-%d-%d", os.Getpid(), time.Now().UnixNano())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := net.ListenPacket("unixgram", name+"-datagram")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := ordered(t, Job{
		Program: Executable, Argv: []string{markerScope, name}, Dir: "/", Home: "/h", Path: "/usr/bin:/bin",
		AddressSpace: -1, FileSize: -1, CPU: -1, OpenFiles: -1, Processes: -1, DieWith: -1,
	})
	change(o)
	answers := map[string]string{}
	for line := range strings.Lines(said(t, o)) {
		what, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		answers[what] = answer
	}
	return answers
}

// needsScopes leaves a test out on kernels whose Landlock has no scopes.
func needsScopes(t *testing.T) {
	t.Helper()
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		t.Skipf("not run: this kernel has no Landlock: %v", errno)
	}
	if version < 6 {
		t.Skipf("not run: this kernel's Landlock has no scopes: its version is %d, and it takes 6", version)
	}
}

func TestAScannerReachesItsOwnAndNobodyElses(t *testing.T) {
	needsScopes(t)
	answers := reached(t, func(*order) {})
	for what, want := range map[string]string{
		"stream": "EPERM", "datagram": "EPERM", "parent": "EPERM", "memory": "EACCES", "own": "ok", "child": "ok",
	} {
		if answers[what] != want {
			t.Errorf("%s: %q, want %q", what, answers[what], want)
		}
	}
}

// As on a kernel that does not know the scopes that are asked for: the same
// calls, which therefore see what the domain keeps.
func TestAKernelWithoutScopesStartsTheScannerAllTheSame(t *testing.T) {
	answers := reached(t, func(o *order) { o.wanted.Scoped = 1 << 63 })
	for _, what := range []string{"stream", "datagram", "parent", "own", "child"} {
		if answers[what] != "ok" {
			t.Errorf("%s: %q", what, answers[what])
		}
	}
}

func TestADomainThatCanNotBeEnteredIsAFailure(t *testing.T) {
	needsScopes(t)
	o := ordered(t, shell(t, "exit 0"))
	// No descriptor is left for it, which says nothing about the kernel.
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: now.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	_, err := o.start()
	if e := unix.Prlimit(0, unix.RLIMIT_NOFILE, &now, nil); e != nil {
		t.Fatal(e)
	}
	failure, ok := errors.AsType[*Failure](err)
	if !ok || failure.Step != StepScope || failure.Errno != unix.EMFILE {
		t.Errorf("%v", err)
	}
}

// The limit that a run asks for is no reason to fail for want of the domain's.
func TestAScannerThatMayOpenNothingIsStarted(t *testing.T) {
	job := shell(t, "exit 0")
	job.OpenFiles = 3
	pid, err := Start(job, [3]uintptr{0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	// It may fail at once, for want of the libraries that it can't open.
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}
