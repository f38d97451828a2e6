package bwrap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
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
