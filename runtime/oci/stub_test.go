package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// stubbed is a runtime whose engine is a shell script: run is what `run` does,
// and everything else is answered as by an engine without containers.
func stubbed(t *testing.T, engine, run string, change ...func(*Config)) *Runtime {
	t.Helper()
	dir := testkit.Dir(t)
	script := "#!/bin/sh\ncase \"$1\" in\n" +
		"--version) echo 'podman version 4.3.1' ;;\n" +
		`info) echo '{"ServerVersion":"20.10.24","MemoryLimit":true,"SecurityOptions":[],"DockerRootDir":"/var/lib/docker"}' ;;` + "\n" +
		"run)\n" + run + "\n;;\nesac\n"
	c := Config{Engine: engine, Binary: writeScript(t, dir, script), Image: "scanner:1", RunDir: filepath.Join(dir, "runs")}
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	// The script makes no container that could be killed.
	r.removal = 300 * time.Millisecond
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		left, _ := os.ReadDir(filepath.Join(dir, "runs"))
		for _, e := range left {
			t.Errorf("%s is left", e.Name())
		}
	})
	return r
}

func writeScript(t *testing.T, dir, script string) string {
	t.Helper()
	binary := filepath.Join(dir, "engine-stub")
	if err := os.WriteFile(binary, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return binary
}

func stubSpec() sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: []string{"scan"},
		StartTimeout: 10 * time.Second, Timeout: 10 * time.Second, Limits: wire.DefaultLimits(),
		Label: wire.Label{Worker: "w", Job: "j", Scanner: "scanner", Attempt: 1},
	}
}

// What engines said when they were asked for each of these, recorded from
// podman 4.3.1 and docker 20.10.24 (client 28.2.2); ids and names are shortened.
// What is marked as such is put together from their sources.
func TestAnEnginesFailuresAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		engine string
		status int
		says   string
		kind   sandbox.Kind
		code   sandbox.Code
	}{
		{Podman, 125, "Error: nosuch:1: image not known", sandbox.Refused, sandbox.CodeImageMissing},
		{Podman, 125, `Error: initializing source docker://localhost:1/nosuch:1: pinging container registry localhost:1: Get "https://localhost:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused`, sandbox.Crashed, sandbox.CodeImageMissing},
		{Podman, 127, `Error: runc: runc create failed: unable to start container process: exec: "batlehub-sandbox": executable file not found in $PATH: OCI runtime attempted to invoke a command that was not found`, sandbox.Refused, sandbox.CodeNoAgent},
		{Podman, 126, `Error: runc: runc create failed: unable to start container process: exec: "batlehub-sandbox": permission denied: OCI permission denied`, sandbox.Refused, sandbox.CodeNoAgent},
		{Podman, 126, "Error: runc: runc create failed: unable to start container process: error during container init: error setting rlimits for ready process: error setting rlimit type 6: operation not permitted: OCI permission denied", sandbox.Refused, sandbox.CodeHostRefused},
		{Podman, 125, "Error: unknown flag: --nosuchflag", sandbox.Refused, sandbox.CodeEngineOld},
		{Podman, 125, `Error: default OCI runtime "nosuchrt" not found: invalid argument`, sandbox.Refused, sandbox.CodeConfig},
		{Podman, 125, "Error: unable to find network with name or ID nosuchnet: network not found", sandbox.Refused, sandbox.CodeConfig},
		{Podman, 125, `Error: creating container storage: the container name "batlehub-sbx-j-scanner-1" is already in use by 0a1b. You have to remove that container to be able to reuse that name: that name is already in use`, sandbox.Crashed, sandbox.CodeInternal},
		{Podman, 125, "Error: creating container storage: could not find enough available IDs", sandbox.Refused, sandbox.CodeHostRefused},
		{Podman, 125, "Error: statfs /var/lib/runs/work: no such file or directory", sandbox.Crashed, sandbox.CodeInternal},
		{Podman, 1, "exec /usr/bin/batlehub-sandbox: exec format error", sandbox.Refused, sandbox.CodeNoAgent},
		{Docker, 1, "exec /usr/bin/batlehub-sandbox: exec format error", sandbox.Refused, sandbox.CodeNoAgent},
		{Docker, 125, "docker: Error response from daemon: Unknown runtime specified nosuchrt\n\nRun 'docker run --help' for more information", sandbox.Refused, sandbox.CodeConfig},
		// From c/storage's sources.
		{Podman, 125, "Error: creating container storage: not enough unused IDs in user namespace", sandbox.Refused, sandbox.CodeHostRefused},
		{Podman, 125, "Error: OCI runtime error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2", sandbox.Refused, sandbox.CodeHostRefused},
		{Docker, 125, "docker: Error response from daemon: No such image: nosuch:1\n\nRun 'docker run --help' for more information", sandbox.Refused, sandbox.CodeImageMissing},
		{Docker, 125, "docker: Error response from daemon: Get \"http://localhost:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused\n\nRun 'docker run --help' for more information", sandbox.Crashed, sandbox.CodeImageMissing},
		{Docker, 127, "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: \"batlehub-sandbox\": executable file not found in $PATH: unknown\n\nRun 'docker run --help' for more information", sandbox.Refused, sandbox.CodeNoAgent},
		{Docker, 125, "docker: Cannot connect to the Docker daemon at unix:///nonexist.sock. Is the docker daemon running?\n\nRun 'docker run --help' for more information", sandbox.Crashed, sandbox.CodeNoEngine},
		{Docker, 125, "unknown flag: --nosuchflag\n\nUsage:  docker run [OPTIONS] IMAGE [COMMAND] [ARG...]\n\nRun 'docker run --help' for more information", sandbox.Refused, sandbox.CodeEngineOld},
		{Docker, 125, "docker: Error response from daemon: network nosuchnet not found", sandbox.Refused, sandbox.CodeConfig},
		{Docker, 125, `docker: Error response from daemon: Conflict. The container name "/batlehub-sbx-j-scanner-1" is already in use by container "0a1b".`, sandbox.Crashed, sandbox.CodeInternal},
		// Nobody's words.
		{Docker, 125, "docker: something that nobody has seen", sandbox.Crashed, sandbox.CodeInternal},
		{Docker, 66, "", sandbox.Crashed, sandbox.CodeNoResult},
		{Podman, 0, "", sandbox.Crashed, sandbox.CodeNoResult},
		{Podman, 137, "", sandbox.Crashed, sandbox.CodeNoResult},
	} {
		if c.engine == Docker && !root() {
			continue // docker's mount transport is refused then
		}
		t.Run(fmt.Sprintf("%s %d %.40s", c.engine, c.status, c.says), func(t *testing.T) {
			r := stubbed(t, c.engine, "cat >&2 <<'EOF'\n"+c.says+"\nEOF\nexit "+fmt.Sprint(c.status))
			out, err := r.Run(t.Context(), stubSpec())
			e, ok := errors.AsType[*sandbox.Error](err)
			if !ok || e.Kind != c.kind || e.Code != c.code {
				t.Fatalf("got %v, want %s (%s)", err, c.kind, c.code)
			}
			if out.Status != nil || e.Hint == "" || e.Runtime != Name || e.Run != "j-scanner-1" || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %+v, %v", out, err)
			}
			first, _, _ := strings.Cut(c.says, "\n\n")
			if !strings.Contains(err.Error(), strings.ReplaceAll(first, `"`, `\"`)) || strings.Contains(err.Error(), "--help") {
				t.Errorf("the error does not end in what the engine said: %v", err)
			}
			if c.status > 0 && !strings.Contains(err.Error(), "no result came back") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Docker's containers share one uid, whose processes are not bounded.
func TestAScannerOverAnEngineLeavesTheAgentItsThreads(t *testing.T) {
	const script = `for a; do case "$a" in *:/bundle*) grep -o "\"processes\":[0-9]*" "${a%%:*}/manifest.json" >&2 ;; esac; done; exit 1`
	for engine, want := range map[string]string{Podman: "\"processes\":224", Docker: "\"processes\":0"} {
		if engine == Docker && !root() {
			continue // its mount transport is refused then
		}
		spec := stubSpec()
		spec.Limits.Processes = 256
		_, err := stubbed(t, engine, script).Run(t.Context(), spec)
		if e, is := errors.AsType[*sandbox.Error](err); !is || strings.TrimSpace(e.Stderr) != want {
			t.Errorf("%s: got %+v, want %s", engine, e, want)
		}
	}
}

func TestAnEngineThatHangsIsAStartTimeoutWithItsWords(t *testing.T) {
	r := stubbed(t, Podman, "echo waiting >&2; sleep 600")
	spec := stubSpec()
	spec.StartTimeout = 300 * time.Millisecond
	_, err := r.Run(t.Context(), spec)
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Kind != sandbox.StartTimeout || !strings.Contains(e.Stderr, "waiting") {
		t.Errorf("got %v, want a start timeout", err)
	}
}

func TestAContainerThatCannotBeSeenGoneIsSaidToBeLeft(t *testing.T) {
	r := stubbed(t, Podman, "exit 125")
	r.engine.config.Binary = writeScript(t, testkit.Dir(t), "#!/bin/sh\ncase $1 in --version) echo podman version 4.3.1 ;; *) echo broken >&2; exit 125 ;; esac\n")
	if _, err := r.Run(t.Context(), stubSpec()); err == nil || !strings.Contains(err.Error(), "may be left, for a sweep to remove") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingEngineIsARefusalThatSaysWhatToInstall(t *testing.T) {
	for _, binary := range []string{"no-such-engine", "/nonexistent/podman", testkit.Dir(t)} {
		r, err := New(Config{Binary: binary, Image: "scanner:1", RunDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Run(t.Context(), stubSpec())
		if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeNoEngine || !strings.Contains(err.Error(), "install podman 4.3 or later") {
			t.Errorf("%s: got %v", binary, err)
		}
		report, err := r.Probe(t.Context(), sandbox.Room{Scanner: "scanner"})
		if err != nil || report.Err() == nil || !strings.Contains(report.Err().Error(), "the sandbox never started") {
			t.Errorf("%s: the probe says %v, %v", binary, report.Err(), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnEngineThatIsTooOldIsARefusalThatNamesTheVersions(t *testing.T) {
	for engine, script := range map[string]string{
		Podman: "echo podman version 3.4.4", Docker: `echo '{"ServerVersion":"19.03.15"}'`,
	} {
		r, err := New(Config{Engine: engine, Binary: writeScript(t, testkit.Dir(t), "#!/bin/sh\n"+script+"\n"), Image: "scanner:1", RunDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Run(t.Context(), stubSpec())
		if sandbox.CodeOf(err) != sandbox.CodeEngineOld || !strings.Contains(err.Error(), "or later") {
			t.Errorf("%s: got %v", engine, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The engine's command line gets no secret of the worker's.
func TestTheEngineGetsWhereItIsAndNothingElse(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("HOSTNAME", "worker-1")
	t.Setenv("DOCKER_HOST", "unix:///from/worker")
	file := filepath.Join(testkit.Dir(t), "env")
	r := stubbed(t, Podman, "env >"+file+"; exit 125", func(c *Config) {
		c.Env = []string{"DOCKER_HOST=unix:///from/config", "CONTAINERS_CONF=/c.conf"}
	})
	_, _ = r.Run(t.Context(), stubSpec())
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"secret", "HOSTNAME", "from/worker"} {
		if strings.Contains(string(b), bad) {
			t.Errorf("%q is in\n%s", bad, b)
		}
	}
	for _, want := range []string{"PATH=", "DOCKER_HOST=unix:///from/config\n", "CONTAINERS_CONF=/c.conf\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
}

func TestTwoRunsOfOneNameAreNeverInFlightTogether(t *testing.T) {
	ready := filepath.Join(testkit.Dir(t), "ready")
	r := stubbed(t, Podman, "touch "+ready+"; sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, stubSpec())
		done <- err
	}()
	if !testkit.Eventually(10*time.Second, func() bool { _, err := os.Stat(ready); return err == nil }) {
		t.Fatal("the first run never began")
	}
	if _, err := r.Run(t.Context(), stubSpec()); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "is in flight") {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("got %v", err)
	}
}

func TestARunWithoutAnImageIsRefusedWithWhatToSet(t *testing.T) {
	r := stubbed(t, Podman, "exit 0", func(c *Config) { c.Image = "" })
	if _, err := r.Run(t.Context(), stubSpec()); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "BATLEHUB_IMAGE") {
		t.Errorf("got %v", err)
	}
}

func TestAConfigurationThatContradictsItselfIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"engine": {Engine: "nerdctl"}, "transport": {Transport: "ftp"}, "pull": {Pull: "always"}, "hop": {Transport: Storage},
		"image": {Image: "--privileged"}, "colon": {RunDir: "/a:b"}, "network": {Network: "--x"},
		"endpoint": {StorageEndpoints: []string{"ftp://x"}}, "loopback": {StorageEndpoints: []string{"http://127.0.0.1:9000"}},
	} {
		if _, err := New(c); sandbox.CodeOf(err) != sandbox.CodeConfig {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEveryAssertionHasAHintThatNamesTheDocument(t *testing.T) {
	for _, id := range wire.Assertions {
		if hint := Hint(id); !strings.Contains(hint, docs) || strings.Contains(hint, "\n") {
			t.Errorf("%s: the hint is %q", id, hint)
		}
	}
	if len(hints) != len(wire.Assertions) {
		t.Errorf("%d hints for %d assertions", len(hints), len(wire.Assertions))
	}
}
