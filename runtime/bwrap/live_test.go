package bwrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// roomsEnv names rooms that are built already, for the tests' second pass.
const roomsEnv = "BATLEHUB_TEST_ROOMS"

// live is a runtime over the real bwrap, with a room whose agent plays the
// verbs of testdata/agent.
func live(t *testing.T) (r *Runtime, runs string) {
	t.Helper()
	if _, err := FindBinary(DefaultBinary); err != nil {
		t.Skip("not run: bwrap is not installed")
	}
	runs = filepath.Join(testkit.Dir(t), "runs")
	r, err := New(Config{Rooms: playRooms(t), RunDir: runs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, runs)
	})
	return r, runs
}

func playRooms(t *testing.T) string {
	t.Helper()
	if rooms := os.Getenv(roomsEnv); rooms != "" {
		return rooms
	}
	return testkit.Rooms(t, "scanner", testkit.Build(t, "./testdata/agent"))
}

func nothingLeft(t *testing.T, runs string) {
	t.Helper()
	entries, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left", e.Name())
	}
}

func verb(args ...string) sandbox.RunSpec {
	spec := stubSpec()
	spec.Argv = args
	return spec
}

func TestARunBringsTheAgentsAnswerBack(t *testing.T) {
	r, _ := live(t)
	out, err := r.Run(t.Context(), verb("answer", "one", "two  words", `$(id) "quoted" *`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Stdout); got != `one two  words $(id) "quoted" *` || out.Status == nil || *out.Status != 0 {
		t.Errorf("got %q, %v", got, out.Status)
	}
}

// A run succeeded if bwrap ended well and a result is there: all four cases.
func TestAGoodExitAndAResultAreBothNeeded(t *testing.T) {
	r, _ := live(t)
	for _, c := range []struct {
		verb string
		says string
	}{
		{"answer", ""},
		{"silent", "bwrap exited 0 and no result came back"},
		{"fail-with-result", "bwrap exited 3 and no result came back"},
		{"die-with-result", "bwrap exited 137 and no result came back"},
		{"fail", "bwrap exited 66 (agent: the result could not be stored) and no result came back"},
	} {
		out, err := r.Run(t.Context(), verb(c.verb))
		if c.says == "" {
			if err != nil || out.Status == nil {
				t.Errorf("%s: got %+v, %v, want an answer", c.verb, out, err)
			}
			continue
		}
		if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeNoResult || !strings.Contains(err.Error(), c.says) || out.Status != nil {
			t.Errorf("%s: got %+v, %v, want crashed (no_result) that says %q", c.verb, out, err, c.says)
		}
	}
}

func TestWhatTheAgentPrintsIsNoAnswer(t *testing.T) {
	r, _ := live(t)
	out, err := r.Run(t.Context(), verb("flood"))
	if err != nil || string(out.Stdout) != "the answer" {
		t.Errorf("got %.40q, %v", out.Stdout, err)
	}
}

// sight is what testdata/agent saw.
type sight struct {
	UID, GID, PID           int
	Environ, Args, Root     []string
	Mounts, Status, UIDMap  string
	Hostname, Dir           string
	Descriptors, Interfaces []string
	Session                 bool
	RootOpen, Sysctl        string
	NewUserns               string
}

func lookFrom(t *testing.T, r *Runtime, network bool) sight {
	t.Helper()
	spec := verb("look")
	spec.Network = network
	out, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var s sight
	if err := json.Unmarshal(out.Stdout, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSandboxIsWhatTheArgvSays(t *testing.T) {
	r, _ := live(t)
	s := lookFrom(t, r, false)
	if s.UID != UID || s.GID != UID || s.PID != 1 {
		t.Errorf("uid %d, gid %d, pid %d", s.UID, s.GID, s.PID)
	}
	slices.Sort(s.Environ)
	if !slices.Equal(s.Environ, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/work"}) &&
		!slices.Equal(s.Environ, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin"}) {
		t.Errorf("the environment is %q", s.Environ)
	}
	if want := []string{"batlehub-sandbox", "--in", "file:///work/manifest.json", "--out", "file:///work/out.tar"}; !slices.Equal(s.Args, want) {
		t.Errorf("the agent's argv is %q", s.Args)
	}
	if s.Hostname != "sandbox" || s.Dir != "/work" || !s.Session {
		t.Errorf("hostname %q, directory %q, session %t", s.Hostname, s.Dir, s.Session)
	}
	if !strings.Contains(s.Status, "CapEff:\t0000000000000000") || !strings.Contains(s.Status, "CapBnd:\t0000000000000000") {
		t.Errorf("there are capabilities: %s", s.Status)
	}
	if want := (&os.PathError{Op: "open", Path: "/usr/bin/.probe", Err: syscall.EROFS}).Error(); s.RootOpen != want {
		t.Errorf("writing to the root: %s", s.RootOpen)
	}
	if s.Sysctl == "opened" {
		t.Error("a sysctl of the host was opened for writing")
	}
	if s.NewUserns == "made" {
		t.Error("another user namespace can be made")
	}
	if !slices.Equal(s.Interfaces, []string{"lo"}) {
		t.Errorf("the network has %q", s.Interfaces)
	}
}

func TestTheRootIsTheRoomAndNeverTheHosts(t *testing.T) {
	r, _ := live(t)
	s := lookFrom(t, r, false)
	if want := []string{"bundle", "dev", "out", "proc", "tmp", "usr", "work"}; !slices.Equal(s.Root, want) {
		t.Errorf("/ holds %q, want %q", s.Root, want)
	}
}

func TestTheWorkDirectoryIsTheOnlyWritableMount(t *testing.T) {
	r, _ := live(t)
	var writable []string
	for line := range strings.Lines(lookFrom(t, r, false).Mounts) {
		fields := strings.Fields(line)
		options := strings.Split(fields[5], ",")
		if slices.Contains(options, "rw") {
			writable = append(writable, fields[4])
		}
		if fields[4] == "/work" && (!slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev")) {
			t.Errorf("/work is mounted %s", fields[5])
		}
	}
	// What bwrap mounts for itself: proc, whose writable parts are closed to
	// an unprivileged uid, and device nodes, which are files.
	writable = slices.DeleteFunc(writable, func(p string) bool {
		return p == "/proc" || strings.HasPrefix(p, "/dev/")
	})
	if !slices.Equal(writable, []string{"/work"}) {
		t.Errorf("writable are %q", writable)
	}
}

func TestNoDescriptorReachesTheSandbox(t *testing.T) {
	r, _ := live(t)
	// What a careless parent or a library leaves open for children.
	planted, err := unix.Open("/proc/self/status", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(planted)
	for _, d := range lookFrom(t, r, false).Descriptors {
		fd, to, _ := strings.Cut(d, " ")
		n, err := strconv.Atoi(fd)
		if err != nil || n > 2 && to != "/proc/1/fd" && !strings.HasPrefix(to, "anon_inode:") {
			t.Errorf("descriptor %s leads to %s", fd, to)
		}
	}
}

func TestNetworkIsAPropertyOfTheRun(t *testing.T) {
	r, _ := live(t)
	host, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(host), ":") < 2 {
		t.Skip("not run: this host has no interface but its own loopback")
	}
	if s := lookFrom(t, r, true); len(s.Interfaces) < 2 {
		t.Errorf("with network there is %q", s.Interfaces)
	}
	if s := lookFrom(t, r, false); !slices.Equal(s.Interfaces, []string{"lo"}) {
		t.Errorf("without network there is %q", s.Interfaces)
	}
}

// bwrap maps the uid that it has. As root's child, the sandbox's 65532 would
// be the host's uid 0.
func TestTheSandboxIsNeverTheHostsRoot(t *testing.T) {
	want := os.Geteuid()
	if want == 0 {
		want = UID
	}
	var uids []string
	_ = endsEverything(t, "hang", nil, func(r *Runtime, cancel func()) {
		for _, pid := range below(os.Getpid(), r.store.Parent()) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, _ := strings.Cut(string(status), "Uid:")
			line, _, _ := strings.Cut(rest, "\n")
			uids = append(uids, strings.Fields(line)...)
		}
		cancel()
	})
	if len(uids) < 4*5 {
		t.Errorf("%d uids were seen", len(uids))
	}
	for _, uid := range uids {
		if uid != strconv.Itoa(want) {
			t.Errorf("a process of the sandbox has the host's uid %s, want %d", uid, want)
		}
	}
}

func TestARunDirectoryIsGoneWhateverTheSandboxLeft(t *testing.T) {
	r, runs := live(t)
	if _, err := r.Run(t.Context(), verb("mess")); err != nil {
		t.Error(err)
	}
	nothingLeft(t, runs)
}

func TestAFullDiskUnderTheRunDirectoryIsOurs(t *testing.T) {
	r, runs := live(t)
	if err := os.MkdirAll(runs, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", runs, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=2m,mode=711"); err != nil {
		t.Skipf("not run: a small file system can't be mounted here: %v", err)
	}
	defer unix.Unmount(runs, unix.MNT_DETACH)
	_, err := r.Run(t.Context(), verb("fill"))
	if sandbox.CodeOf(err) != sandbox.CodeNoSpace || !strings.Contains(err.Error(), runs) {
		t.Errorf("got %v, want no_space that names %s", err, runs)
	}
	nothingLeft(t, runs)
}

// endsEverything runs a verb that waits, ends it by end once it runs, and
// looks that every process of it is gone when Run returns.
func endsEverything(t *testing.T, what string, change func(*sandbox.RunSpec), end func(r *Runtime, cancel func())) error {
	t.Helper()
	r, runs := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	spec := verb(what)
	if change != nil {
		change(&spec)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, spec)
		done <- err
	}()
	var tree []int
	want := 2
	if what == "hang" {
		want = 5
	}
	if !testkit.Eventually(5*time.Second, func() bool { tree = below(os.Getpid(), runs); return len(tree) >= want }) {
		t.Errorf("%d processes run, want %d", len(tree), want)
	}
	if end != nil {
		end(r, cancel)
	}
	err := <-done
	for _, pid := range tree {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	nothingLeft(t, runs)
	return err
}

// below lists the processes of the bwrap that runs over a run directory.
func below(pid int, runs string) []int {
	var tree []int
	for _, child := range process.Children(pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if !bytes.Contains(line, []byte(runs)) {
			continue
		}
		tree = append(tree, child)
		for i := len(tree) - 1; i < len(tree); i++ {
			tree = append(tree, process.Children(tree[i])...)
		}
	}
	return tree
}

func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestACancelledRunLeavesNoProcessAndNoDirectory(t *testing.T) {
	err := endsEverything(t, "hang", nil, func(_ *Runtime, cancel func()) { cancel() })
	if sandbox.KindOf(err) != sandbox.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
}

func TestAClosedRuntimeEndsItsRuns(t *testing.T) {
	err := endsEverything(t, "hang", nil, func(r *Runtime, _ func()) {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v, want cancelled", err)
	}
}

func TestAnAgentThatHangsIsARunTimeout(t *testing.T) {
	began := time.Now()
	err := endsEverything(t, "hang", func(s *sandbox.RunSpec) { s.StartTimeout, s.Timeout = time.Second, time.Second }, nil)
	if sandbox.KindOf(err) != sandbox.RunTimeout {
		t.Errorf("got %v, want a run timeout", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s, and may take two seconds", took)
	}
}

func TestAnAgentThatNeverFetchesIsAStartTimeout(t *testing.T) {
	err := endsEverything(t, "hang-start", func(s *sandbox.RunSpec) { s.StartTimeout, s.Timeout = time.Second, time.Minute }, nil)
	if sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v, want a start timeout", err)
	}
}

func startWorker(t *testing.T, rooms, runs, verb string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"worker", rooms, runs, verb}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestAWorkerThatIsKilledLeavesNoProcessAndNoDirectoryASecondLater(t *testing.T) {
	r, runs := live(t)
	worker := startWorker(t, r.config.Rooms, runs, "hang")
	var tree []int
	if !testkit.Eventually(5*time.Second, func() bool { tree = below(worker.Process.Pid, runs); return len(tree) >= 5 }) {
		t.Errorf("%d processes run, want 5", len(tree))
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	if !testkit.Eventually(time.Second, func() bool { return !slices.ContainsFunc(tree, running) && isEmpty(runs) }) {
		nothingLeft(t, runs)
		for _, pid := range tree {
			if running(pid) {
				t.Errorf("process %d is left", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func TestAWorkerThatIsKilledAtAnyMomentLeavesNothing(t *testing.T) {
	r, runs := live(t)
	for i := range 25 {
		worker := startWorker(t, r.config.Rooms, runs, "answer")
		// Each worker is killed somewhere else in its runs. About one in ten
		// leaves a child of bwrap's that waits for its dead parent.
		<-time.After(time.Duration(i) * 2300 * time.Microsecond)
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if !testkit.Eventually(time.Second, func() bool { return isEmpty(runs) && len(naming(runs)) == 0 }) {
			nothingLeft(t, runs)
			t.Errorf("processes %v are left", naming(runs))
		}
	}
}

// naming lists the processes whose command line names a directory.
func naming(dir string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, name := range files {
		line, _ := os.ReadFile(name)
		if bytes.Contains(line, []byte(dir)) && !bytes.HasPrefix(line, []byte("worker")) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

func TestRunsSideBySideDoNotMeet(t *testing.T) {
	r, _ := live(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			want := fmt.Sprint("run ", i)
			spec := verb("answer", want)
			spec.Label.Job = fmt.Sprint("job", i)
			out, err := r.Run(t.Context(), spec)
			if err != nil || string(out.Stdout) != want {
				t.Errorf("got %q, %v, want %q", out.Stdout, err, want)
			}
		})
	}
	all.Wait()
}

func TestManyRunsLeaveNoDescriptorAndNoGoroutine(t *testing.T) {
	r, runs := live(t)
	run := func() {
		if _, err := r.Run(t.Context(), verb("answer")); err != nil {
			t.Fatal(err)
		}
	}
	run()
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	descriptors, goroutines := count(), runtime.NumGoroutine()
	for range 50 {
		run()
	}
	if !testkit.Eventually(time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if n := count(); n > descriptors {
		t.Errorf("%d descriptors, %d before", n, descriptors)
	}
	nothingLeft(t, runs)
}

func TestAnArtifactReachesTheSandboxThroughItsDirectoryAlone(t *testing.T) {
	r, _ := live(t)
	spec := verb("look")
	spec.Bundle.Entries = []wire.Entry{{Kind: wire.Archive, URL: wire.ArtifactURL}}
	spec.Bundle.Artifact = bundle.BytesArtifact([]byte("artifact"))
	if _, err := r.Run(t.Context(), spec); err != nil {
		t.Error(err)
	}
}

func TestAProbeOfARoomThatHoldsPasses(t *testing.T) {
	r, _ := live(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	if err != nil || report.Err() != nil {
		t.Fatalf("got %v, %v", report.Err(), err)
	}
	var ids []wire.AssertionID
	for _, v := range report.Verdicts {
		ids = append(ids, v.ID)
	}
	if !slices.Equal(ids, wire.Assertions) {
		t.Errorf("the verdicts are %v", ids)
	}
	if report.UID != UID || report.Agent != "fake" || report.Duration <= 0 || report.Hint != "" {
		t.Errorf("the report is %+v", report)
	}
}

func TestAnAssertionThatFailsOrIsLeftOutFailsTheProbeWithItsHint(t *testing.T) {
	r, _ := live(t)
	for _, id := range wire.Assertions[1:] {
		for _, how := range []string{"fail-", "omit-"} {
			report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{how + string(id)}})
			v, failed := report.Failed()
			if err != nil || !failed || v.ID != id || report.Hint != Hint(id) {
				t.Errorf("%s%s: got %+v, hint %q, %v", how, id, v, report.Hint, err)
			}
		}
	}
}

func TestAnAgentOfAnotherReleaseFailsTheProbeOnItsWireVersion(t *testing.T) {
	r, _ := live(t)
	for _, release := range []string{"older-release", "later-release"} {
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner", Commands: []string{release}})
		v, failed := report.Failed()
		if err != nil || !failed || v.ID != wire.AssertWire || !strings.Contains(v.Detail, "wire version 9") || report.Hint != Hint(wire.AssertWire) {
			t.Errorf("%s: got %+v, hint %q, %v", release, report.Verdicts, report.Hint, err)
		}
	}
}

func TestARoomWithoutAnAgentFailsTheProbeAndNamesIt(t *testing.T) {
	r, _ := live(t)
	rooms := testkit.Dir(t)
	for _, dir := range []string{"scanner/work", "scanner/proc", "scanner/dev", "scanner/usr/bin"} {
		if err := os.MkdirAll(filepath.Join(rooms, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.config.Rooms = rooms
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
	v, failed := report.Failed()
	if err != nil || !failed || v.ID != wire.AssertResult || !strings.Contains(v.Detail, "batlehub-sandbox") || !strings.Contains(report.Hint, "sandboxctl tree") {
		t.Errorf("got %+v, hint %q, %v", v, report.Hint, err)
	}
	if _, err := r.Run(t.Context(), verb("answer")); sandbox.CodeOf(err) != sandbox.CodeNoAgent {
		t.Errorf("got %v, want no_agent", err)
	}
}

func TestARoomWithoutMountPointsIsRefused(t *testing.T) {
	r, _ := live(t)
	r.config.Rooms = testkit.Dir(t)
	if err := os.Mkdir(filepath.Join(r.config.Rooms, "scanner"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), verb("answer")); sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "sandboxctl tree") {
		t.Errorf("got %v, want a refusal that says what to build", err)
	}
}

func TestARootWorkerSaysWhenTheSandboxsUidCanNotReachIts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: not root")
	}
	r, _ := live(t)
	closed := filepath.Join(testkit.Dir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := New(Config{Rooms: r.config.Rooms, RunDir: filepath.Join(closed, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Run(t.Context(), verb("answer")); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "uid 65532") {
		t.Errorf("got %v", err)
	}
}

// The second pass: everything above as a user without privileges.
func TestAllOfThisHoldsForAnUnprivilegedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: this is the unprivileged pass, or there is no root to drop from")
	}
	r, _ := live(t)
	dir := testkit.Dir(t)
	binary := filepath.Join(dir, "bwrap.test")
	copyFile(t, "/proc/self/exe", binary)
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	const user = 12345
	if err := os.Chown(home, user, user); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "testdata/argv-network-off.golden", filepath.Join(dir, "testdata", "argv-network-off.golden"))
	copyFile(t, "testdata/argv-network-on.golden", filepath.Join(dir, "testdata", "argv-network-on.golden"))
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.timeout=300s")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=/usr/bin:/bin", roomsEnv + "=" + r.config.Rooms, testkit.AgentEnv + "=" + testkit.Agent(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, must := range []string{"TestARunBringsTheAgentsAnswerBack", "TestAPackageIsUnpackedInsideAndScanned", "TestAWorkerThatIsKilledAtAnyMomentLeavesNothing", "TestTheSandboxIsNeverTheHostsRoot"} {
		if !bytes.Contains(out, []byte("--- PASS: "+must)) {
			t.Errorf("%s did not pass:\n%s", must, out)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}
