package stage

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// shell is a job that runs one line of shell without limits.
func shell(t *testing.T, line string) Job {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skipf("not run: %v", err)
	}
	return Job{
		Program: "/bin/sh", Argv: []string{"sh", "-c", line}, Dir: "/", Home: "/h", Path: "/usr/bin:/bin",
		AddressSpace: -1, FileSize: -1, CPU: -1, OpenFiles: -1, Processes: -1, DieWith: -1,
	}
}

// pipes are a reading end and a writing end, closed with the test.
func pipes(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// said starts o and returns what its program prints to stdout.
func said(t *testing.T, o *order) string {
	t.Helper()
	read, write := pipes(t)
	o.stdio = [3]uintptr{0, write.Fd(), 2}
	pid, err := o.start()
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	b, err := io.ReadAll(read)
	if err != nil {
		t.Error(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		t.Errorf("status %#x (%v)", status, err)
	}
	return string(b)
}

func ordered(t *testing.T, job Job) *order {
	t.Helper()
	o, err := orderOf(job, [3]uintptr{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// open is a descriptor that every child inherits.
func open(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open("/", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestADescriptorOfTheParentsIsNotInherited(t *testing.T) {
	const list = `for f in /proc/self/fd/*; do readlink $f; done | grep -cx / || true`
	open(t)
	if s := said(t, ordered(t, shell(t, list))); s != "0\n" {
		t.Errorf("%q are left", s)
	}
	// As where the kernel does not know close_range.
	open(t)
	o := ordered(t, shell(t, list))
	if err := o.sealAll(); err != nil {
		t.Fatal(err)
	}
	if s := said(t, o); s != "0\n" {
		t.Errorf("%q are left without close_range", s)
	}
}

func TestStreamsMayStandInEachOthersPlaces(t *testing.T) {
	job := shell(t, "read line; echo got $line")
	in, feed := pipes(t)
	read, out := pipes(t)
	if _, err := feed.WriteString("this\n"); err != nil {
		t.Fatal(err)
	}
	// Whatever stands at 0 and 1 now comes back before anybody prints.
	var kept [2]int
	for fd, stands := range []uintptr{out.Fd(), in.Fd()} {
		var err error
		if kept[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			t.Fatal(err)
		}
		if err := unix.Dup3(int(stands), fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	pid, err := Start(job, [3]uintptr{1, 0, 0})
	for fd, old := range kept {
		if e := unix.Dup3(old, fd, 0); e != nil {
			t.Fatal(e)
		}
		unix.Close(old)
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	if b, err := io.ReadAll(read); string(b) != "got this\n" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}

func TestASoftLimitOfFilesThatGoRaisedIsNotPassedOn(t *testing.T) {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	if now.Max <= usualFiles {
		t.Skipf("not run: no more than %d files may be open", now.Max)
	}
	raised := unix.Rlimit{Cur: now.Max - 1, Max: now.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &raised, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &now, nil) }()
	want := strconv.Itoa(usualFiles) + " " + strconv.FormatUint(now.Max, 10) + "\n"
	if s := said(t, ordered(t, shell(t, "echo $(ulimit -Sn) $(ulimit -Hn)"))); s != want {
		t.Errorf("%q, want %q", s, want)
	}
}

func TestAFailedStepIsNamedAndNothingIsLeft(t *testing.T) {
	for _, test := range []struct {
		step   Step
		errno  syscall.Errno
		change func(*Job)
	}{
		{StepExec, unix.ENOENT, func(j *Job) { j.Program = "/no/such/program" }},
		{StepExec, unix.EACCES, func(j *Job) { j.Program = "/" }},
		{StepExec, unix.EINVAL, func(j *Job) { j.Program = "a\x00b" }},
		{StepArguments, unix.EINVAL, func(j *Job) { j.Argv = []string{"a\x00b"} }},
		{StepDirectory, unix.ENOENT, func(j *Job) { j.Dir = "/no/such/directory" }},
		{StepParent, unix.ESRCH, func(j *Job) { j.DieWith = 1 << 30 }},
		{StepDescriptors, unix.EBADF, func(*Job) {}},
	} {
		job := shell(t, "exit 1")
		test.change(&job)
		stdio := [3]uintptr{0, 1, 2}
		if test.step == StepDescriptors {
			stdio[2] = 1 << 20
		}
		pid, err := Start(job, stdio)
		failure, ok := errors.AsType[*Failure](err)
		if !ok || failure.Step != test.step || failure.Errno != test.errno || pid != 0 {
			t.Errorf("%s: pid %d, %v, want %v", test.step, pid, err, test.errno)
		}
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
			t.Errorf("%s: a child is left: %v", test.step, err)
		}
	}
}

func TestTheParentsSignalsAreAsTheyWere(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := func() string {
		b, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Skipf("not run: %v", err)
		}
		var kept []string
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "Sig") && !strings.HasPrefix(line, "SigQ") && !strings.HasPrefix(line, "SigPnd") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	before := signals()
	said(t, ordered(t, shell(t, "exit 0")))
	if _, err := Start(Job{Program: "/no/such/program", Argv: []string{"x"}, Dir: "/", DieWith: -1}, [3]uintptr{0, 1, 2}); err == nil {
		t.Error("a missing program started")
	}
	if after := signals(); after != before || !strings.Contains(before, "SigBlk") {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// A child that wrote where its parent or the collector does would show here.
func TestChildrenAreMadeWhileTheCollectorRuns(t *testing.T) {
	job := shell(t, "exit 7")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for kept := map[int][]byte{}; ; {
			select {
			case <-stop:
				return
			default:
				kept[len(kept)%512] = make([]byte, 4096)
				runtime.GC()
			}
		}
	})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for range 25 {
				pid, err := Start(job, [3]uintptr{0, 1, 2})
				if err != nil {
					t.Error(err)
					return
				}
				var status syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 7 {
					t.Errorf("status %#x (%v)", status, err)
				}
			}
		})
	}
	starts.Wait()
	close(stop)
	busy.Wait()
}
