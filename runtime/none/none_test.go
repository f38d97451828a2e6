package none_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// TestMain lets the test binary be the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[0] == "worker" {
		worker(os.Args[1], os.Args[2])
	}
	status := m.Run()
	testkit.Clean()
	os.Exit(status)
}

// worker runs a scanner that says its pid and waits.
func worker(runs, pids string) {
	r, err := none.New(none.Config{RunDir: runs})
	if err != nil {
		os.Exit(1)
	}
	_, _ = r.Run(context.Background(), shell("echo $$ >"+pids+"; (sleep 600 & echo $! >>"+pids+"); sleep 600"))
	os.Exit(1)
}

func open(t *testing.T) (r *none.Runtime, runs string) {
	t.Helper()
	runs = t.TempDir()
	r, err := none.New(none.Config{RunDir: runs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(runs); err != nil || len(entries) > 0 {
			t.Errorf("%v is left, %v", entries, err)
		}
	})
	return r, runs
}

func command(argv ...string) sandbox.RunSpec {
	limits := wire.DefaultLimits()
	limits.AddressSpaceMB = wire.AddressSpaceOff
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: argv, Timeout: time.Minute,
		Limits: limits, Label: wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1},
	}
}

func shell(script string) sandbox.RunSpec { return command("sh", "-c", script) }

func TestAScannersStatusAndOutputAreTheAnswer(t *testing.T) {
	r, _ := open(t)
	out, err := r.Run(t.Context(), shell(`printf 'a\000b\377'; echo oops >&2; exit 3`))
	if err != nil || out.Status == nil || *out.Status != 3 || string(out.Stdout) != "a\x00b\xff" || out.StderrTail != "oops\n" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestASignalIsAnAnswerWithoutAStatus(t *testing.T) {
	r, _ := open(t)
	out, err := r.Run(t.Context(), shell(`kill -KILL $$`))
	if err != nil || out.Status != nil || out.Result.Signal != "SIGKILL" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestTheArgvArrivesAsItIs(t *testing.T) {
	r, _ := open(t)
	out, err := r.Run(t.Context(), command("printf", "%s|", "two  words", `$(id) "q" *;`, "", "\n"))
	if err != nil || string(out.Stdout) != "two  words|$(id) \"q\" *;||\n|" {
		t.Errorf("got %q, %v", out.Stdout, err)
	}
}

func TestTheScannerSeesHomeAndPathAndNothingElse(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://secret")
	r, runs := open(t)
	out, err := r.Run(t.Context(), command("env"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out.Stdout))
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "HOME="+runs) || lines[1] != "PATH="+none.DefaultPath {
		t.Errorf("the environment is %q", lines)
	}
}

// The name that this test had before there were runtimes:
// a_scanner_that_hangs_times_out.
func TestAScannerThatHangsTimesOut(t *testing.T) {
	r, _ := open(t)
	pids := filepath.Join(t.TempDir(), "pids")
	spec := shell("echo $$ >" + pids + "; sleep 600 & echo $! >>" + pids + "; wait")
	spec.Timeout = 700 * time.Millisecond
	began := time.Now()
	out, err := r.Run(t.Context(), spec)
	if sandbox.KindOf(err) != sandbox.RunTimeout || out.Status != nil {
		t.Errorf("got %+v, %v, want a run timeout", out, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	ended(t, pids, 2)
}

// The name that this test had before there were runtimes:
// stdout_above_the_cap_is_an_output_error_not_an_answer.
func TestStdoutAboveTheCapIsAnOutputErrorNotAnAnswer(t *testing.T) {
	r, _ := open(t)
	out, err := r.Run(t.Context(), command("head", "-c", strconv.Itoa(wire.StdoutCap), "/dev/zero"))
	if err != nil || len(out.Stdout) != wire.StdoutCap {
		t.Errorf("at the cap: %d bytes, %v", len(out.Stdout), err)
	}
	_, err = r.Run(t.Context(), command("head", "-c", strconv.Itoa(wire.StdoutCap+1), "/dev/zero"))
	if sandbox.KindOf(err) != sandbox.ResultInvalid || sandbox.CodeOf(err) != sandbox.CodeStdoutCap {
		t.Errorf("above the cap: %v", err)
	}
}

func TestAMissingCommandIsACrashThatSaysSo(t *testing.T) {
	r, _ := open(t)
	_, err := r.Run(t.Context(), command("no-such-scanner"))
	if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeCommandMissing {
		t.Errorf("got %v", err)
	}
}

func tarOf(t *testing.T, names ...string) sandbox.Artifact {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		content := "content of " + name
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bundle.BytesArtifact(b.Bytes())
}

func withArtifact(t *testing.T, spec sandbox.RunSpec, a sandbox.Artifact) sandbox.RunSpec {
	t.Helper()
	p, err := wire.ParseRelPath("pkg")
	if err != nil {
		t.Fatal(err)
	}
	spec.Bundle.Entries = []wire.Entry{{Path: p, Kind: wire.Archive, URL: wire.ArtifactURL}}
	spec.Bundle.Artifact = a
	return spec
}

func TestAnArtifactIsUnpackedByTheAgentsOwnCode(t *testing.T) {
	r, _ := open(t)
	out, err := r.Run(t.Context(), withArtifact(t, shell("cat pkg/a/b; ls in 2>/dev/null; ls manifest.json 2>/dev/null; true"), tarOf(t, "a/b")))
	if err != nil || string(out.Stdout) != "content of a/b" || out.Result.Extraction.Files != 1 {
		t.Errorf("got %q, %+v, %v", out.Stdout, out.Result.Extraction, err)
	}
}

func TestARefusedArtifactIsAnAnswer(t *testing.T) {
	r, runs := open(t)
	out, err := r.Run(t.Context(), withArtifact(t, shell("echo started"), tarOf(t, "../../escaped")))
	if err != nil || out.Refused() == nil || out.Status != nil || len(out.Stdout) > 0 {
		t.Errorf("got %+v, %v, want a refusal", out, err)
	}
	if _, err := os.Stat(filepath.Join(runs, "escaped")); err == nil {
		t.Error("it escaped")
	}
}

// Each run ends its own processes. Anything wider would end those of other
// runs, which are children of the same process, or the host's.
func TestRunsSideBySideDoNotEndEachOther(t *testing.T) {
	r, _ := open(t)
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	}()
	started := filepath.Join(t.TempDir(), "started")
	release := filepath.Join(t.TempDir(), "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	long := make(chan error, 1)
	go func() {
		// It lives until its FIFO is written to, and has children of its own.
		out, err := r.Run(t.Context(), shell("cat "+release+" & echo >"+started+"; wait; echo survived"))
		if err == nil && string(out.Stdout) != "survived\n" {
			err = fmt.Errorf("it printed %q, status %v, signal %s", out.Stdout, out.Status, out.Result.Signal)
		}
		long <- err
	}()
	if !testkit.Eventually(10*time.Second, func() bool { _, err := os.Stat(started); return err == nil }) {
		t.Fatal("the long run did not start")
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			spec := shell("sleep 600 & exit 0")
			if i%2 == 0 {
				spec = shell("sleep 600")
				spec.Timeout = 300 * time.Millisecond
			}
			_, _ = r.Run(t.Context(), spec)
		})
	}
	all.Wait()
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of the host was ended: %v", err)
	}
	w, err := os.OpenFile(release, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-long; err != nil {
		t.Error(err)
	}
}

func TestACancelledRunLeavesNoProcessAndNoDirectory(t *testing.T) {
	for name, end := range map[string]func(*none.Runtime, func()){
		"cancelled": func(_ *none.Runtime, cancel func()) { cancel() },
		"closed":    func(r *none.Runtime, _ func()) { _ = r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := open(t)
			pids := filepath.Join(t.TempDir(), "pids")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := r.Run(ctx, shell("echo $$ >"+pids+"; sleep 600 & echo $! >>"+pids+"; wait"))
				done <- err
			}()
			awaitLines(t, pids, 2)
			end(r, cancel)
			if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
				t.Errorf("got %v, want cancelled", err)
			}
			ended(t, pids, 2)
		})
	}
}

func TestAWorkerThatIsKilledLeavesNoProcessAndNoDirectory(t *testing.T) {
	runs, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"worker", runs, pids}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLines(t, pids, 2)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !testkit.Eventually(10*time.Second, func() bool { entries, err := os.ReadDir(runs); return err == nil && len(entries) == 0 }) {
		t.Error("a directory is left")
	}
	ended(t, pids, 2)
}

func awaitLines(t *testing.T, name string, n int) {
	t.Helper()
	if !testkit.Eventually(10*time.Second, func() bool {
		b, _ := os.ReadFile(name)
		return bytes.Count(b, []byte("\n")) >= n
	}) {
		t.Fatal("the scanner did not start")
	}
}

// ended looks that each process listed in a file is gone.
func ended(t *testing.T, name string, n int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(b))
	if len(pids) != n {
		t.Errorf("%d processes were started, want %d", len(pids), n)
	}
	for _, pid := range pids {
		if !testkit.Eventually(10*time.Second, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		}) {
			t.Errorf("process %s is left", pid)
			if p, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(p, syscall.SIGKILL)
			}
		}
	}
}

func TestManyRunsLeaveNoDescriptorNoGoroutineAndNoProcess(t *testing.T) {
	r, _ := open(t)
	run := func() {
		if _, err := r.Run(t.Context(), withArtifact(t, command("true"), tarOf(t, "a"))); err != nil {
			t.Fatal(err)
		}
	}
	run()
	descriptors, goroutines, processes := count(t, "/proc/self/fd/*"), runtime.NumGoroutine(), children(t)
	for range 40 {
		run()
	}
	if !testkit.Eventually(10*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if n := count(t, "/proc/self/fd/*"); n > descriptors {
		t.Errorf("%d descriptors, %d before", n, descriptors)
	}
	if n := children(t); n > processes {
		t.Errorf("%d children, %d before", n, processes)
	}
}

func count(t *testing.T, pattern string) int {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func children(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		b, _ := os.ReadFile(name)
		n += len(bytes.Fields(b))
	}
	return n
}

func TestOutsideATestItHasToBeAskedForByName(t *testing.T) {
	program := testkit.Build(t, "./testdata/program")
	out, err := exec.CommandContext(t.Context(), program).Output()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "refused (unsafe)") ||
		!strings.Contains(string(out), "BATLEHUB_UNSAFE_NO_SANDBOX=1") {
		t.Errorf("got %q, %v, want a refusal", out, err)
	}
	// The variable alone is nothing to this package: the worker reads it.
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "BATLEHUB_UNSAFE_NO_SANDBOX=1")
	if out, err := cmd.Output(); err == nil {
		t.Errorf("got %q, want a refusal", out)
	}
	if out, err := exec.CommandContext(t.Context(), program, "unsafe").Output(); err != nil || string(out) != "no walls\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestTheProbeIsSkippedWithAReason(t *testing.T) {
	r, _ := open(t)
	report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "s"})
	if err != nil || report.Skipped == "" || report.Err() != nil || len(report.Verdicts) > 0 || report.Runtime != "none" {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestAnUnusableSpecIsARefusal(t *testing.T) {
	r, _ := open(t)
	spec := command("true")
	spec.Bundle.Entries = []wire.Entry{{Kind: wire.Archive, URL: "file:///etc/shadow", Size: 1}}
	_, err := r.Run(t.Context(), spec)
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Kind != sandbox.Refused || e.Code != sandbox.CodeConfig || e.Runtime != "none" || e.Run != "j-s-1" {
		t.Errorf("got %v", err)
	}
}

// Package bundle knows the agent's exit codes by number alone.
func TestTheAgentsExitCodesAreKnownByWords(t *testing.T) {
	for _, code := range []agent.ExitCode{agent.ExitUsage, agent.ExitManifest, agent.ExitStore, agent.ExitInternal, agent.ExitCancelled} {
		if got := bundle.AgentExit(int(code)); got != code.String() {
			t.Errorf("%d is %q, want %q", code, got, code)
		}
	}
	if bundle.ExitManifest != int(agent.ExitManifest) || bundle.ExitStore != int(agent.ExitStore) {
		t.Error("a status of the agent's has another number")
	}
	if bundle.AgentExit(0) != "" || bundle.AgentExit(1) != "" {
		t.Error("a status is taken for the agent's")
	}
}
