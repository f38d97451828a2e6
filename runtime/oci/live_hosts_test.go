package oci

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// probed is a runtime whose probe has to pass, whatever kind of host this is.
func (l *live) probed() {
	l.t.Helper()
	report, err := l.Probe(l.t.Context(), sandbox.Room{Scanner: "tool", Commands: []string{"tool"}})
	if err != nil || report.Err() != nil {
		l.t.Fatalf("got %v, %v, %s", report.Err(), err, report.Hint)
	}
	for _, v := range report.Verdicts {
		if v.Outcome != wire.Pass && v.ID != wire.AssertMemory {
			l.t.Errorf("%+v", v)
		}
	}
}

func TestADaemonWithAUserNamespaceGetsRunDirectoriesOfItsUID(t *testing.T) {
	testkit.Engine(t, "docker_remap")
	t.Setenv("DOCKER_HOST", os.Getenv("BATLEHUB_TEST_DOCKER_REMAP_HOST"))
	l := newLive(t, Docker)
	if h := l.mustFind(); h.remap == 0 {
		t.Fatalf("the daemon's user namespace was not seen: %+v", h)
	}
	if m := strings.Fields(l.must("cat", "/proc/self/uid_map")); len(m) < 3 || m[1] == "0" {
		t.Errorf("the uid map is %q", m)
	}
	l.probed()
}

func TestProxiesOfDockersConfigurationReachNoSandbox(t *testing.T) {
	testkit.Engine(t, Docker)
	dir := testkit.Dir(t)
	config := `{"proxies":{"default":{"httpProxy":"http://u:p@proxy:1","httpsProxy":"http://proxy:2","ftpProxy":"http://proxy:3",` +
		`"noProxy":"x","allProxy":"http://proxy:4"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	l := newLive(t, Docker)
	plain := l.say("run", "--rm", "--network", "none", "--entrypoint", "/usr/bin/tool", l.image, "env")
	if !strings.Contains(plain, "HTTP_PROXY=") {
		t.Fatalf("docker adds no proxies of its own: %s", plain)
	}
	if env := l.must("env"); strings.Contains(strings.ToLower(env), "proxy") {
		t.Errorf("there are proxies: %s", env)
	}
}

// The runtime class of a sandbox, gVisor above all, is an extra argument.
func TestAnExtraArgumentPicksTheOCIRuntime(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		name, asked := "io.containerd.runc.v2", "{{.HostConfig.Runtime}}"
		if l.engine == Podman {
			runc, err := exec.LookPath("runc")
			if err != nil {
				t.Skip("not run: there is no runc for podman to use")
			}
			name, asked = filepath.Join(testkit.Dir(t), "another-runc"), "{{.OCIRuntime}}"
			if err := os.Symlink(runc, name); err != nil {
				t.Fatal(err)
			}
		}
		r := l.with(func(c *Config) { c.ExtraArgs = []string{"--runtime=" + name} })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spec := l.spec("sleep")
		container := ContainerName(spec.Label)
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, spec)
			done <- err
		}()
		l.seen(container)
		if used := l.say("inspect", "--format", asked, container); used != name {
			t.Errorf("the runtime is %q, want %q", used, name)
		}
		cancel()
		if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
	})
}

// What a scanner needs from this host is mounted beside the sandbox's own.
func TestAnExtraArgumentMountsWhatAScannerNeeds(t *testing.T) {
	eachEngine(t, func(t *testing.T, l *live) {
		dir := testkit.Dir(t)
		if err := os.WriteFile(filepath.Join(dir, "rules"), []byte("a rule"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "rules"), 0o644); err != nil {
			t.Fatal(err)
		}
		l.Runtime = l.with(func(c *Config) {
			c.ExtraArgs = []string{"-v", dir + ":/srv/db:ro", "--mount", "type=tmpfs,destination=/srv/empty,ro"}
		})
		if got := l.must("cat", "/srv/db/rules"); got != "a rule" {
			t.Errorf("got %q", got)
		}
		if mounts := l.must("cat", "/proc/self/mounts"); !strings.Contains(mounts, " /srv/empty tmpfs ro") {
			t.Errorf("there is no /srv/empty in\n%s", mounts)
		}
		l.probed()
	})
}

// rootlessUserEnv names the ordinary user with subordinate ids as which a root's
// test runs rootless podman.
const rootlessUserEnv = "BATLEHUB_TEST_PODMAN_ROOTLESS_USER"

func TestRootlessPodmanRunsOverMount(t *testing.T) {
	if !root() {
		testkit.Engine(t, Podman)
		l := newLive(t, Podman)
		if m := strings.Fields(l.must("cat", "/proc/self/uid_map")); len(m) < 3 || m[1] == "0" {
			t.Errorf("the uid map is %q", m)
		}
		l.probed()
		named := l.spec("cat", "/etc/hosts")
		named.Network = true
		out, err := l.with(func(c *Config) { c.Network = "host" }).Run(t.Context(), named)
		if want := "127.0.0.1 localhost sandbox\n"; err != nil || string(out.Stdout) != want {
			t.Errorf("/etc/hosts is %q, %v, want %q", out.Stdout, err, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		spec := l.spec("sleep")
		go func() {
			l.seen(ContainerName(spec.Label))
			cancel()
		}()
		if _, err := l.Run(ctx, spec); sandbox.KindOf(err) != sandbox.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
		return
	}
	testkit.Engine(t, "podman_rootless")
	asUser(t, os.Getenv(rootlessUserEnv), t.Name())
}

// asUser runs one test of this binary as a user, whose home and runtime
// directory are made for it and go with it.
func asUser(t *testing.T, name, test string) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir := testkit.Dir(t)
	place := func(sub string) string {
		p := filepath.Join(dir, sub)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, uid, gid); err != nil {
			t.Fatal(err)
		}
		return p
	}
	home, run, tmp := place("home"), place("run"), place("tmp")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "oci.test")
	if err := os.WriteFile(binary, self, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "XDG_RUNTIME_DIR=" + run, "TMPDIR=" + tmp, "PATH=" + os.Getenv("PATH"), "CONTAINERS_CONF=" + os.Getenv("CONTAINERS_CONF"),
		"BATLEHUB_TEST_PODMAN=1", testkit.AgentEnv + "=" + testkit.Agent(t), testkit.ToolEnv + "=" + testkit.Tool(t),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	t.Cleanup(func() {
		// The process that keeps podman's user namespace.
		pid, err := os.ReadFile(filepath.Join(run, "libpod", "tmp", "pause.pid"))
		if n, bad := strconv.Atoi(strings.TrimSpace(string(pid))); err == nil && bad == nil && n > 1 {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	})
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("as %s: %v\n%s", name, err, out)
	}
}
