package launch_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// spec is a scanner whose two streams are the pipes returned.
func spec(t *testing.T, argv ...string) (launch.Spec, *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return launch.Spec{
		Argv: argv, Dir: t.TempDir(), Home: "/h", Path: "/usr/bin:/bin", Stdout: write, Stderr: write,
		Limits: wire.Limits{MemoryMB: 1, AddressSpaceMB: wire.AddressSpaceOff, CPUSeconds: 10},
	}, read
}

func start(t *testing.T, s launch.Spec) *launch.Process {
	t.Helper()
	p, err := launch.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Stdout.Close()
	return p
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skipf("not run: %v", err)
	}
}

func TestABareNameIsLookedUpOnThePathAndNowhereElse(t *testing.T) {
	s, out := spec(t, "echo", "hello")
	needs(t, "/bin/echo")
	if exit, err := start(t, s).Wait(); err != nil || exit.Status != 0 {
		t.Fatalf("%v (%v)", exit, err)
	}
	if b, err := io.ReadAll(out); string(b) != "hello\n" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	// In the work directory, which an archive has filled.
	for _, path := range []string{"", ".", ":/usr/bin", "relative"} {
		s, _ := spec(t, "planted")
		s.Path = path
		if err := os.WriteFile(filepath.Join(s.Dir, "planted"), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := launch.Start(s); !errors.Is(err, launch.ErrNotFound) {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestAProgramOnThePathThatCanNotBeExecutedIsNamedSo(t *testing.T) {
	s, _ := spec(t, "plain")
	s.Path = t.TempDir()
	if err := os.WriteFile(filepath.Join(s.Path, "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := launch.Start(s); !errors.Is(err, launch.ErrNotExecutable) {
		t.Errorf("err %v", err)
	}
}

func TestAMissingWorkDirectoryIsNoMissingProgram(t *testing.T) {
	needs(t, "/bin/echo")
	s, _ := spec(t, "/bin/echo")
	s.Dir = "/no/such/directory"
	_, err := launch.Start(s)
	if err == nil || errors.Is(err, launch.ErrNotFound) || !strings.Contains(err.Error(), "changing to the work directory") {
		t.Errorf("err %v", err)
	}
}

func TestAnArgumentListThatIsTooLongIsAFailure(t *testing.T) {
	needs(t, "/bin/echo")
	s, _ := spec(t, "/bin/echo", strings.Repeat("x", wire.ArgvBytesCap))
	if _, err := launch.Start(s); !errors.Is(err, unix.E2BIG) {
		t.Errorf("err %v", err)
	}
	s, out := spec(t, "/bin/echo", strings.Repeat("x", wire.ArgvBytesCap-100))
	p := start(t, s)
	b, err := io.ReadAll(out)
	if _, e := p.Wait(); e != nil || err != nil || len(b) != wire.ArgvBytesCap-99 {
		t.Errorf("%d bytes (%v, %v)", len(b), err, e)
	}
}

func TestTheStageItselfLivesWithASmallAddressSpace(t *testing.T) {
	needs(t, "/bin/true")
	for _, mb := range []int64{16, 64, 256, 1 << 40, 1<<63 - 1} {
		s, _ := spec(t, "/bin/true")
		s.Limits.AddressSpaceMB = mb
		p, err := launch.Start(s)
		if err != nil {
			t.Errorf("%d MiB: %v", mb, err)
			continue
		}
		if exit, err := p.Wait(); err != nil || exit.Status != 0 {
			t.Errorf("%d MiB: %v (%v)", mb, exit.Status, err)
		}
	}
}

func TestTheProgramsLaterEndEndsTheScanner(t *testing.T) {
	needs(t, "/bin/sleep")
	s, out := spec(t, "/bin/sh", "-c", "sleep 3600 & echo $$ $!; wait")
	p := start(t, s)
	b := make([]byte, 64)
	n, err := out.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	// As when this program dies: nothing but the lifeline closes.
	p.CloseLifeline()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	for _, field := range strings.Fields(string(b[:n])) {
		if pid, err := strconv.Atoi(field); err != nil || unix.Kill(pid, 0) == nil {
			t.Errorf("process %s is left (%v)", field, err)
		}
	}
}

func TestAKeeperThatIsKilledTakesItsScannerAlong(t *testing.T) {
	s, out := spec(t, "/bin/sh", "-c", "echo $$; exec sleep 3600")
	needs(t, "/bin/sleep")
	p := start(t, s)
	b := make([]byte, 64)
	n, err := out.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(p.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err == nil {
		t.Error("a killed keeper was taken for a scanner that ended")
	}
	// Its pipe closes when it is dead.
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if alive(t, pid) {
		t.Errorf("process %d is left", pid)
	}
}

// alive gives a process that was killed ten seconds to end.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	return err != nil || n == 0
}

func TestAForkBombIsEnded(t *testing.T) {
	needs(t, "/bin/sleep")
	s, _ := spec(t, "/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do (setsid sleep 3600 &) ; i=$((i+1)); done; exit 5")
	exit, err := start(t, s).Wait()
	if err != nil || exit.Status.ExitStatus() != 5 {
		t.Errorf("%v (%v)", exit.Status, err)
	}
}

func TestAWitnessSeesTheFilter(t *testing.T) {
	w, err := launch.Witness(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.Seccomp != 2 || w.NoNewPrivs != 1 || w.UID != os.Geteuid() {
		t.Errorf("%+v", w)
	}
	for _, call := range []string{"unshare", "setns", "ptrace", "keyctl", "process_vm_readv", "mknodat", "io_uring_setup"} {
		if w.Denied[call] != "EPERM" {
			t.Errorf("%s: %q", call, w.Denied[call])
		}
	}
}

func TestAWitnessSeesThatAFileIsClosed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w, err := launch.Witness(t.Context(), []string{file})
	if err != nil {
		t.Fatal(err)
	}
	if said, open := w.Open[file]; open == w.CanClose || open && said != "list answered ok, create answered ok" {
		t.Errorf("it can be closed: %v; it is open: %q", w.CanClose, said)
	}
}

func TestNoDescriptorAndNoProcessIsLeftOver(t *testing.T) {
	needs(t, "/bin/true")
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("not run: %v", err)
		}
		return len(names)
	}
	run := func() {
		s, out := spec(t, "/bin/true")
		if _, err := start(t, s).Wait(); err != nil {
			t.Fatal(err)
		}
		out.Close()
		bad, _ := spec(t, "/no/such/program")
		if _, err := launch.Start(bad); err == nil {
			t.Fatal("a missing program started")
		}
		bad.Stdout.Close()
	}
	run()
	before := count()
	for range 10 {
		run()
	}
	// The failed runs' reading ends are closed when the test ends.
	if after := count(); after > before+10 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("a child is left: %v", err)
	}
}
