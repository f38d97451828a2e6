package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// built holds what is built once for all tests.
var built struct {
	sync.Mutex
	dir   string
	files map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build makes a file once, with a command that is told where.
func build(t *testing.T, name string, command func(out string) *exec.Cmd) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if out := built.files[name]; out != "" {
		return out
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "agent-test-")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		built.dir, built.files = dir, map[string]string{}
	}
	out := filepath.Join(built.dir, name)
	if said, err := command(out).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, said)
	}
	built.files[name] = out
	return out
}

func agentFor(t *testing.T, arch, name string) string {
	t.Helper()
	return build(t, name, func(out string) *exec.Cmd { return exec.Command("sh", "../../build.sh", arch, out) })
}

func theAgent(t *testing.T) string {
	t.Helper()
	return agentFor(t, runtime.GOARCH, "batlehub-sandbox")
}

func theScanner(t *testing.T) string {
	t.Helper()
	return build(t, "scanner", func(out string) *exec.Cmd {
		c := exec.Command("go", "build", "-trimpath", "-o", out, "./testdata/scanner")
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		return c
	})
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return -1
}

func TestOddArgumentsAreAUsageErrorWithoutSideEffectOrWord(t *testing.T) {
	program, dir := theAgent(t), t.TempDir()
	in, out := "file://"+dir+"/manifest.json", "file://"+dir+"/out.tar"
	for _, args := range [][]string{
		{},
		{"--in"},
		{"--in", in},
		{"--in", in, "--out"},
		{"--in", in, "--out", out, "x"},
		{"--out", out, "--in", in},
		{"--in=" + in, "--out=" + out},
		{"-in", in, "-out", out},
		{"--in", "", "--out", out},
		{"--in", in, "--out", ""},
		{"--help"},
		{"-h"},
		{"--version"},
		{"--in", in, "--in", in},
		{"--in", "ftp://x/y", "--out", out},
		{"--in", in, "--out", "relative"},
		{"--probe", "--in", in, "--out", out},
	} {
		c := exec.CommandContext(t.Context(), program, args...)
		said, err := c.CombinedOutput()
		if code := exitCode(t, err); code != int(agent.ExitUsage) || len(said) != 0 {
			t.Errorf("%q: status %d, said %q", args, code, said)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v stand there (%v)", left, err)
	}
}

func TestEnvironmentAndStdinChangeNothing(t *testing.T) {
	program := theAgent(t)
	c := exec.CommandContext(t.Context(), program, "--in", "file:///no/such/manifest", "--out", "file:///no/such/out.tar")
	c.Env = []string{
		"GODEBUG=inittrace=0,netdns=cgo", "GOTRACEBACK=crash", "SSL_CERT_FILE=/x", "HTTPS_PROXY=http://127.0.0.1:1",
		"BATLEHUB_IN=x", "LD_PRELOAD=/x.so", "TMPDIR=/x", "HOME=", "PATH=",
	}
	c.Stdin = strings.NewReader("--in x\n{}\n")
	said, err := c.CombinedOutput()
	if code := exitCode(t, err); code != int(agent.ExitManifest) || len(said) != 0 {
		t.Errorf("status %d, said %q", code, said)
	}
}

func TestTheAgentIsStaticStrippedSmallAndTheSameEachTime(t *testing.T) {
	const most = 6 << 20
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			name := "batlehub-sandbox-" + arch
			if arch == runtime.GOARCH {
				name = "batlehub-sandbox"
			}
			first, err := os.ReadFile(agentFor(t, arch, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", len(first))
			if len(first) > most {
				t.Errorf("%d bytes, at most %d are allowed", len(first), most)
			}
			second, err := os.ReadFile(agentFor(t, arch, name+"-again"))
			if err != nil || !bytes.Equal(first, second) {
				t.Errorf("a second build differs (%v)", err)
			}
			file, err := elf.NewFile(bytes.NewReader(first))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range file.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("it has a %s segment", p.Type)
				}
			}
			for _, s := range []string{".dynamic", ".interp", ".symtab", ".debug_info", ".zdebug_info"} {
				if file.Section(s) != nil {
					t.Errorf("it has a %s section", s)
				}
			}
		})
	}
}

// manifest is a run of the test scanner's verb.
func manifest(verb string) *wire.Manifest {
	limits := wire.DefaultLimits()
	limits.AddressSpaceMB = wire.AddressSpaceOff
	return &wire.Manifest{
		Wire: wire.Version, Label: wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1},
		Entries: []wire.Entry{}, Canaries: []string{}, Policy: wire.DefaultExtractPolicy(), Limits: limits,
		TimeoutMS: 60_000, Argv: []string{"scanner", verb}, SealKey: wire.NewSealKey(),
	}
}

func writeManifest(t *testing.T, work string, m *wire.Manifest) {
	t.Helper()
	document, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "manifest.json"), document, 0o644); err != nil {
		t.Fatal(err)
	}
}

func readResult(t *testing.T, work string, m *wire.Manifest) (*wire.Result, string) {
	t.Helper()
	tar, err := os.ReadFile(filepath.Join(work, "out.tar"))
	if err != nil {
		t.Fatal(err)
	}
	r, stdout, err := wire.DecodeResult(tar, m.SealKey)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(stdout)
}

func TestTheAgentRunsInAnEmptyRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can change the root directory")
	}
	root := t.TempDir()
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(theAgent(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "agent"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	m := manifest("look")
	writeManifest(t, work, m)
	c := exec.CommandContext(t.Context(), "/agent", "--in", "file:///work/manifest.json", "--out", "file:///work/out.tar")
	c.Path, c.Dir = "/agent", "/"
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if said, err := c.CombinedOutput(); err != nil || len(said) != 0 {
		t.Fatalf("%v, said %q", err, said)
	}
	// There is no scanner, and the agent could say so.
	if r, _ := readResult(t, work, m); r.Ending != wire.EndFailed || r.Failure.Code != wire.CodeNotFound {
		t.Errorf("ending %s, failure %+v", r.Ending, r.Failure)
	}
}

// inBwrap runs the agent as pid 1 behind bwrap's walls, as the runtime does.
func inBwrap(t *testing.T, m *wire.Manifest) (*wire.Result, string) {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("not run: bwrap is not installed")
	}
	base, err := os.MkdirTemp("", "agent-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	room, work := filepath.Join(base, "room"), filepath.Join(base, "work")
	for _, dir := range []string{base, room, room + "/usr", room + "/usr/bin", room + "/proc", room + "/dev", room + "/work", work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{"batlehub-sandbox": theAgent(t), "scanner": theScanner(t)} {
		program, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(room, "usr/bin", name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeManifest(t, work, m)
	c := exec.CommandContext(t.Context(), bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
		"--new-session", "--as-pid-1", "--uid", "65532", "--gid", "65532", "--cap-drop", "ALL", "--clearenv",
		"--setenv", "HOME", "/work", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--ro-bind", room, "/",
		"--proc", "/proc", "--dev", "/dev", "--bind", work, "/work", "--chdir", "/work", "--",
		"/usr/bin/batlehub-sandbox", "--in", "file:///work/manifest.json", "--out", "file:///work/out.tar")
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(work, 65532, 65532), os.Chown(work+"/manifest.json", 65532, 65532)); err != nil {
			t.Fatal(err)
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	said, err := c.CombinedOutput()
	if err != nil && strings.Contains(string(said), "bwrap:") {
		t.Skipf("not run: bwrap makes no sandbox here: %s", said)
	}
	if err != nil || len(said) != 0 {
		t.Fatalf("%v, said %q", err, said)
	}
	return readResult(t, work, m)
}

func TestFromInsideTheAgentCanNotBeLookedInto(t *testing.T) {
	r, stdout := inBwrap(t, manifest("look"))
	if r.Ending != wire.EndExited {
		t.Fatalf("ending %s, failure %+v", r.Ending, r.Failure)
	}
	if strings.Contains(stdout, "file://") || strings.Contains(stdout, "manifest.json") {
		t.Errorf("a URL of the agent's can be seen:\n%s", stdout)
	}
	for _, name := range []string{"environ", "mem", "maps", "fd/0", "root", "cwd", "exe"} {
		if !strings.Contains(stdout, "\n"+name+" open /proc/1/"+name+": permission denied\n") {
			t.Errorf("%s is not refused:\n%s", name, stdout)
		}
	}
	if !strings.Contains(stdout, `environ ["HOME=/work" "PATH=/usr/local/bin:/usr/bin:/bin"]`) {
		t.Errorf("the environment is another:\n%s", stdout)
	}
}

func TestNoSignalOfAScannersEndsTheAgent(t *testing.T) {
	r, stdout := inBwrap(t, manifest("shoot"))
	if r.Ending != wire.EndExited || stdout != "shot\n" {
		t.Errorf("ending %s, stdout %q, failure %+v", r.Ending, stdout, r.Failure)
	}
}

func TestAsPID1EverythingLeftBehindIsEndedAndReaped(t *testing.T) {
	began := time.Now()
	r, stdout := inBwrap(t, manifest("daemons"))
	if r.Ending != wire.EndExited || stdout != "left\n" {
		t.Errorf("ending %s, stdout %q, failure %+v", r.Ending, stdout, r.Failure)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %v", took)
	}
	// The pid namespace ends with its pid 1, so all that can be left are the
	// namespace's own processes, and bwrap would not have returned.
}

func TestAProbeAnswersWithVerdictsAndStartsNothing(t *testing.T) {
	m := manifest("")
	m.Argv, m.Probe = []string{}, &wire.ProbeRequest{Commands: []string{"scanner"}}
	r, _ := inBwrap(t, m)
	if r.Ending != wire.EndProbed {
		t.Fatalf("ending %s, failure %+v", r.Ending, r.Failure)
	}
	for _, v := range r.Probe.Verdicts {
		if v.ID == wire.AssertEnvironment && v.Outcome != wire.Pass {
			t.Errorf("%s: %s: %s", v.ID, v.Outcome, v.Detail)
		}
	}
	if len(r.Probe.Verdicts) != len(wire.Assertions)-1 || len(r.Probe.Commands) != 1 {
		t.Errorf("%d verdicts, %d commands", len(r.Probe.Verdicts), len(r.Probe.Commands))
	}
}
