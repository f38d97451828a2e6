package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestLimitsHoldForTheScannerAlone(t *testing.T) {
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &before); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, "facts")
	b.m.Limits = wire.Limits{MemoryMB: 64, AddressSpaceMB: 3000, CPUSeconds: 77, Processes: 5000, OpenFiles: 123, FileMB: 7}
	f := b.facts()
	want := map[string]uint64{"as": 3000 << 20, "cpu": 77, "core": 0, "fsize": 7 << 20, "nproc": 5000, "nofile": 123}
	for name, soft := range want {
		// Go's own start raises the soft limit of open files to the hard one.
		if f.Soft[name] != soft {
			t.Errorf("soft %s is %d, want %d", name, f.Soft[name], soft)
		}
		if hard := f.Hard[name]; hard != soft && (name != "cpu" || hard != soft+1) {
			t.Errorf("hard %s is %d, want %d", name, hard, soft)
		}
	}
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &after); err != nil || after != before {
		t.Errorf("the agent's own limit went from %v to %v (%v)", before, after, err)
	}
}

func TestLimitsThatAreOffAreLeftAlone(t *testing.T) {
	b := newBed(t, "facts")
	b.m.Limits = wire.Limits{MemoryMB: 64, AddressSpaceMB: wire.AddressSpaceOff, CPUSeconds: 77}
	f := b.facts()
	for _, name := range []string{"as", "fsize", "nproc", "nofile"} {
		var own unix.Rlimit
		if err := unix.Getrlimit(resources[name], &own); err != nil {
			t.Fatal(err)
		}
		if f.Hard[name] != own.Max {
			t.Errorf("hard %s is %d, want the agent's own %d", name, f.Hard[name], own.Max)
		}
	}
}

func TestALimitThatIsLowerAlreadyIsKept(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if own.Max == unix.RLIM_INFINITY {
		t.Skip("not run: the open files of this machine have no hard limit")
	}
	b := newBed(t, "facts")
	b.m.Limits.OpenFiles = int64(own.Max) + 1000
	if f := b.facts(); f.Hard["nofile"] != own.Max {
		t.Errorf("hard nofile is %d, want the lower one of %d", f.Hard["nofile"], own.Max)
	}
}

func TestACPUHogIsEndedByItsLimit(t *testing.T) {
	b := newBed(t, "burn")
	b.m.Limits.CPUSeconds = 1
	r, _ := b.run()
	// A Go program does not die of SIGXCPU, so the hard limit ends it.
	if r.Ending != wire.EndSignaled || (r.Signal != "SIGXCPU" && r.Signal != "SIGKILL") {
		t.Errorf("ending %s, signal %q", r.Ending, r.Signal)
	}
	if r.Usage.UserMS < 800 {
		t.Errorf("%d ms of user time counted", r.Usage.UserMS)
	}
}

func TestAFileAboveTheLimitIsCutOff(t *testing.T) {
	b := newBed(t, "grow", "3")
	b.m.Limits.FileMB = 2
	r, _ := b.run()
	if r.Ending == wire.EndExited && *r.Status == 0 {
		t.Errorf("it wrote 3 MiB under a limit of 2")
	}
	if info, err := os.Stat(filepath.Join(b.work, "grown")); err != nil || info.Size() != 2<<20 {
		t.Errorf("the file has %v bytes (%v)", info.Size(), err)
	}
}

func TestAScannerThatHangsTimesOut(t *testing.T) {
	b := newBed(t, "hang")
	b.m.TimeoutMS = 300
	began := time.Now()
	r, stdout := b.run()
	if r.Ending != wire.EndTimedOut || stdout != "" || r.Status != nil {
		t.Errorf("ending %s, stdout %q", r.Ending, stdout)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestStdoutAboveTheCapIsAnOutputErrorNotAnAnswer(t *testing.T) {
	r, stdout := newBed(t, "flood", "stdout", strconv.Itoa(wire.StdoutCap+1)).run()
	if r.Ending != wire.EndStdoutCap || stdout != "" || r.Status != nil {
		t.Errorf("ending %s, %d bytes of stdout", r.Ending, len(stdout))
	}
	if r.StdoutBytes <= wire.StdoutCap {
		t.Errorf("%d bytes counted", r.StdoutBytes)
	}
}

func TestAScannerThatFloodsStdoutIsEnded(t *testing.T) {
	r, _ := newBed(t, "flood", "stdout", strconv.Itoa(1<<40)).run()
	if r.Ending != wire.EndStdoutCap {
		t.Errorf("ending %s", r.Ending)
	}
}

func TestStdoutAtTheCapIsAnAnswer(t *testing.T) {
	r, stdout := newBed(t, "flood", "stdout", strconv.Itoa(wire.StdoutCap)).exited(0)
	if len(stdout) != wire.StdoutCap || r.StdoutBytes != wire.StdoutCap {
		t.Errorf("%d bytes of stdout, %d counted", len(stdout), r.StdoutBytes)
	}
}

func TestOfStderrTheTailIsKept(t *testing.T) {
	const all = 3<<20 + 5
	r, _ := newBed(t, "flood", "stderr", strconv.Itoa(all)).exited(0)
	if r.StderrBytes != all || len(r.StderrTail) != wire.StderrTailCap {
		t.Fatalf("%d bytes counted, %d kept", r.StderrBytes, len(r.StderrTail))
	}
	if !strings.HasSuffix(r.StderrTail, "0123456789abcdef01234") {
		t.Errorf("the tail ends with %q", r.StderrTail[wire.StderrTailCap-32:])
	}
}
