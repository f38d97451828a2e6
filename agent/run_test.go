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

func TestNeitherManifestNorInputsAreThereForTheScanner(t *testing.T) {
	b := newBed(t, "facts")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: b.input("a", []byte("x")), Size: 1}}
	f := b.facts()
	if f.Manifest || f.InputsDir {
		t.Errorf("manifest there: %v, inputs there: %v", f.Manifest, f.InputsDir)
	}
	if f.TempMode != "drwx------" {
		t.Errorf("tmp is %s", f.TempMode)
	}
}

func TestFileEntriesAreLaidOutWithoutExecuteBits(t *testing.T) {
	b := newBed(t, "cat", "a.txt", "deep/er/b.txt")
	content := []byte("from a file")
	b.m.Entries = []wire.Entry{
		{Path: wire.MustRelPath("a.txt"), Kind: wire.File, Inline: []byte("inline"), Size: 6},
		{Path: wire.MustRelPath("deep/er/b.txt"), Kind: wire.File, URL: b.input("b", content), Size: int64(len(content))},
	}
	_, stdout := b.exited(0)
	want := "a.txt -rw-r--r-- \"inline\"\ndeep/er/b.txt -rw-r--r-- \"from a file\"\n"
	if stdout != want {
		t.Errorf("stdout %q, want %q", stdout, want)
	}
}

func TestAnInputOfAnotherSizeIsAFailure(t *testing.T) {
	for _, size := range []int64{0, 4, 6, 1 << 40} {
		b := newBed(t, "exit", "0")
		b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: b.input("a", []byte("12345")), Size: size}}
		b.failedWith(wire.StageFetch, wire.CodeSizeMismatch)
	}
}

func TestAnInputThatIsMissingOrNoFileIsAFailure(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: "file://" + b.work + "/in/a", Size: 1}}
	b.failedWith(wire.StageFetch, wire.CodeNotFound)

	b = newBed(t, "exit", "0")
	url := b.input("a", []byte("x"))
	link := filepath.Join(b.work, "in", "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: strings.TrimSuffix(url, "/a") + "/link", Size: 1}}
	b.failedWith(wire.StageFetch, wire.CodeIO)

	b = newBed(t, "exit", "0")
	url = b.input("a", nil)
	fifo := filepath.Join(b.work, "in", "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	b.m.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: strings.TrimSuffix(url, "/a") + "/fifo", Size: 0}}
	b.failedWith(wire.StageFetch, wire.CodeIO)
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

func TestWhateverStandsAtTheResultsPlaceGivesWay(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"file", "symlink", "directory", "no-rights"} {
		b := newBed(t, "plant", what, target)
		b.exited(0)
		info, err := os.Stat(filepath.Join(b.work, "out.tar"))
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v (%v)", what, info.Mode(), err)
		}
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "untouched" {
		t.Errorf("the link's target holds %q (%v)", b, err)
	}
}

func TestAManifestOfAnotherVersionIsAnsweredBySaying(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.writeManifest()
	path := filepath.Join(b.work, "manifest.json")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(document), `"wire":1`, `"unknown_field":[],"wire":2`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitStored {
		t.Fatalf("the agent ended with %d", code)
	}
	r, _ := b.result()
	if r.Ending != wire.EndFailed || r.Failure.Stage != wire.StageManifest || r.Failure.Code != wire.CodeWireVersion {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

func TestWithoutAUsableManifestThereIsNoResult(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "not json": "{", "no key": `{"wire":1}`[:9], "too large": strings.Repeat(" ", wire.ManifestCap+1),
	} {
		b := newBed(t, "exit", "0")
		if err := os.WriteFile(filepath.Join(b.work, "manifest.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitManifest {
			t.Errorf("%s: the agent ended with %d, want %d", name, code, agent.ExitManifest)
		}
		if left := b.leftOver(); !slices.Equal(left, []string{"manifest.json"}) {
			t.Errorf("%s: %q stands there", name, left)
		}
	}
	b := newBed(t, "exit", "0")
	if code := agent.Run(t.Context(), b.in(), b.out(), b.opts); code != agent.ExitManifest {
		t.Errorf("missing: the agent ended with %d, want %d", code, agent.ExitManifest)
	}
}

func TestURLsThatCanNotBeFollowedAreAUsageError(t *testing.T) {
	b := newBed(t, "exit", "0")
	b.writeManifest()
	for _, bad := range []string{"", "x", "/work/manifest.json", "ftp://h/x", "file://host/x", "file:", "file:///", "https://", "http://u:p@h/", "file:///x?y", "http://h/\x00"} {
		if code := agent.Run(t.Context(), bad, b.out(), b.opts); code != agent.ExitUsage {
			t.Errorf("--in %q: %d", bad, code)
		}
		if code := agent.Run(t.Context(), b.in(), bad, b.opts); code != agent.ExitUsage {
			t.Errorf("--out %q: %d", bad, code)
		}
	}
	if left := b.leftOver(); !slices.Equal(left, []string{"manifest.json"}) {
		t.Errorf("%q stands there", left)
	}
}

func TestAPlaceThatCanNotBeWrittenIsAnErrorBeforeTheScannerStarts(t *testing.T) {
	b := newBed(t, "grow", "1")
	b.writeManifest()
	if code := agent.Run(t.Context(), b.in(), "file:///no/such/directory/out.tar", b.opts); code != agent.ExitStore {
		t.Errorf("the agent ended with %d, want %d", code, agent.ExitStore)
	}
	if slices.Contains(b.leftOver(), "grown") {
		t.Error("the scanner was started")
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
