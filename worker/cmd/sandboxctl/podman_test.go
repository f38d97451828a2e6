package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// engineEnv is what says where an engine keeps its things; scripts/engines.sh
// prints more of it.
func engineEnv() []string {
	env := []string{"HOME=" + os.Getenv("HOME")}
	for _, name := range []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// podmanImage makes an image of a tool's room, and returns its name.
func podmanImage(t *testing.T) string {
	t.Helper()
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Skip("not run: there is no podman on PATH")
	}
	room, image := filepath.Join(t.TempDir(), "room"), fmt.Sprintf("localhost/sandboxctl-test-%d", os.Getpid())
	if r := sandboxctl(t, nil, "tree", "--output", room, "--file", built(t, "tool"), "--command", "tool"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	archive := room + ".tar"
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", room, "--owner=0", "--group=0", "-cf", archive, ".").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if out, err := exec.CommandContext(t.Context(), podman, "import", archive, image).CombinedOutput(); err != nil {
		t.Skipf("not run: podman imports no image here: %v: %s", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() { _ = exec.Command(podman, "rmi", "--force", image).Run() })
	out, err := exec.CommandContext(t.Context(), podman, "run", "--rm", "--network", "none", "--userns", "auto", "--entrypoint", "tool", image, "echo", "x").CombinedOutput()
	if err != nil {
		t.Skipf("not run: podman runs no container here, see scripts/engines.sh: %v: %s", err, bytes.TrimSpace(out))
	}
	return image
}

// The whole way: an image, its probe, a run in a container of its own, its
// answer, and nothing left.
func TestAScanOverPodmanProvesTheImageAndAnswers(t *testing.T) {
	image := podmanImage(t)
	dir := runDir(t)
	config := put(t, "config.toml", fmt.Appendf(nil,
		"[worker.sandbox]\nruntime = \"oci\"\nrun_dir = %q\n[worker.sandbox.oci]\npull = \"never\"\n"+
			"[scanners.tool]\ncommand = \"tool\"\nargs = [\"cat\", \"{artifact}/package/a.txt\"]\nfindings = \"lines\"\nimage = %q\n", dir, image))
	artifact := put(t, "a.tgz", tgz(t, entry{"package/a.txt", "one finding\n"}))
	r := sandboxctl(t, engineEnv(), "scan", "--config", config, "--format", "json", artifact)
	got := report(t, r)
	if r.status != ExitFindings || r.stderr != "" || got.Runtime != "oci" || len(got.Scanners) != 1 || got.Scanners[0].Total != 1 {
		t.Fatalf("status %d, stderr %q\n%s", r.status, r.stderr, r.stdout)
	}
	if len(got.Rooms) != 1 || got.Rooms[0].Image != image || got.Rooms[0].UID != 65532 || got.Rooms[0].Error != "" {
		t.Errorf("rooms %+v", got.Rooms)
	}
	for _, v := range got.Rooms[0].Verdicts {
		if v.Outcome == wire.Fail {
			t.Errorf("%s: %s", v.ID, v.Detail)
		}
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
	// The flags do for a quick case what the file does for a deployment.
	quick := sandboxctl(t, engineEnv(), "run", "--runtime", "oci", "--image", image, "--run-dir", dir, "--", "tool", "echo", "hello")
	if quick.status != 0 || quick.stdout != "hello" {
		t.Errorf("run: status %d, %q %q", quick.status, quick.stdout, quick.stderr)
	}
	worker := sandboxctl(t, engineEnv(), "worker", "--config", config)
	if want := `probing runtime "oci" (engine podman, image ` + image + ", transport mount)"; worker.status != ExitFailed || !strings.Contains(worker.stderr, want) || !strings.Contains(worker.stderr, "probe passed") {
		t.Errorf("worker: status %d\n%s", worker.status, worker.stderr)
	}
	probe := sandboxctl(t, append(engineEnv(), "BATLEHUB_IMAGE="+image), "probe", "--runtime", "oci", "--scanner", "gitleaks", "--run-dir", dir, "--format", "json")
	var seen struct {
		Rooms []struct{ Image, Error string }
	}
	if err := json.Unmarshal([]byte(probe.stdout), &seen); err != nil || len(seen.Rooms) != 1 || seen.Rooms[0].Image != image || !strings.Contains(seen.Rooms[0].Error, string(wire.AssertCommand)) {
		t.Errorf("the worker's image, in which gitleaks is not: %v, status %d\n%s%s", err, probe.status, probe.stdout, probe.stderr)
	}
}

func TestARunWithoutAnImageSaysWhereToNameOne(t *testing.T) {
	for args, want := range map[string]string{
		"probe --runtime oci --scanner gitleaks": "there is no image to run scanner 'gitleaks' in; set [scanners.gitleaks] image",
		"run --runtime oci -- x":                 "--image is missing: runtime \"oci\" runs a command in an image",
		"probe --runtime bwrap --image x":        "--image has no effect under runtime \"bwrap\"; it goes with --runtime oci",
		"probe --runtime oci --engine nerdctl":   "--engine: engine \"nerdctl\" is not known; one of podman, docker",
	} {
		r := sandboxctl(t, nil, strings.Fields(args)...)
		if r.status != ExitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", args, r.status, r.stderr, want)
		}
	}
}

// An engine that is not there is a refusal like a bwrap that is not there.
func TestAMissingEngineIsARefusalThatSaysWhatToInstall(t *testing.T) {
	config := put(t, "c.toml", []byte("[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\nbinary = \"/nonexistent/podman\"\n[scanners.x]\ncommand = \"x\"\nimage = \"x\"\n"))
	r := sandboxctl(t, nil, "worker", "--config", config)
	if r.status != ExitFailed || !strings.Contains(r.stderr, "ERROR sandbox: probe failed for runtime \"oci\"") || !strings.Contains(r.stderr, refusing) || !strings.Contains(r.stderr, "install podman 4.3") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
}

// A server that wants the bucket in the path is asked for by a name that nobody
// knows when path_style is forgotten.
func TestAForgottenPathStyleIsNamed(t *testing.T) {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("not run: there is no podman on PATH")
	}
	const want = "cache.server.invalid is the bucket before the server's name: set [storage.backends.minio] path_style = true"
	for style, named := range map[string]bool{"false": true, "true": false} {
		config := put(t, "c.toml", fmt.Appendf(nil, "[worker.sandbox]\nruntime = \"oci\"\n[worker.sandbox.oci]\ntransport = \"storage\"\npull = \"never\"\n"+
			"[storage.backends.minio]\ntype = \"s3\"\nendpoint = \"http://server.invalid:9000\"\nbucket = \"cache\"\npath_style = %s\naccess_key = \"a\"\nsecret_key = \"s\"\n", style))
		r := sandboxctl(t, engineEnv(), "run", "--config", config, "--image", "localhost/none", "--", "x")
		if strings.Contains(r.stderr, "podman would leave every run's network behind") {
			t.Skip("not run: podman's networks can't be removed here, see scripts/engines.sh")
		}
		lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
		if r.status != ExitRunFailed || !strings.Contains(lines[len(lines)-1], "server.invalid") {
			t.Errorf("path_style %s: status %d, %s", style, r.status, r.stderr)
		}
		for _, line := range lines {
			if strings.Contains(line, "server.invalid") && strings.Contains(line, want) != named {
				t.Errorf("path_style %s: %s", style, line)
			}
		}
	}
}
