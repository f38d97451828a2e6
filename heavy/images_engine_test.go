package heavy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// checkout is the workspace, seen from this package.
const checkout = ".."

func imageName(name string) string { return "localhost/batlehub-sandbox-" + name + ":heavy" }

// forEachEngine runs a test with every container engine of this host. What an
// engine lacks is the reason that the test is not run with it.
func forEachEngine(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	for _, engine := range []string{"podman", "docker"} {
		t.Run(engine, func(t *testing.T) {
			if _, err := exec.LookPath(engine); err != nil {
				t.Skipf("not run: no %s here", engine)
			}
			if out, err := engineCommand(t, engine, "info").CombinedOutput(); err != nil {
				t.Skipf("not run: %s does not work here: %s", engine, finalLine(out))
			}
			test(t, engine)
		})
	}
}

// engineEnv is what scripts/engines.sh says the engines need on this host.
var engineEnv = sync.OnceValue(func() []string {
	if os.Getenv("CONTAINERS_CONF") != "" || os.Getenv("DOCKER_HOST") != "" || os.Getenv("ENGINE_AS_IT_IS") != "" {
		return os.Environ()
	}
	c := exec.Command("sh", "-c", `eval "$(sh scripts/engines.sh env)" && env`)
	c.Dir = checkout
	out, err := c.Output()
	if err != nil {
		return os.Environ()
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
})

func engineCommand(t *testing.T, engine string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), engine, args...)
	c.Env = engineEnv()
	return c
}

func imagesScript(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", append([]string{"scripts/images.sh"}, args...)...)
	c.Dir = checkout
	c.Env = append(engineEnv(), "TAG=heavy")
	return c
}

// buildImages builds images as scripts/images.sh does. What they are built
// from, the programs in out/bin, is built first if it is missing.
func buildImages(t *testing.T, engine string, names ...string) {
	t.Helper()
	needPrograms(t)
	for _, name := range names {
		if _, err := exec.LookPath(name); name == "yara" && err != nil {
			t.Skip("not run: no yara here; install the package yara")
		}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return alreadyBuilt[engine+" "+name] })
	if len(names) == 0 {
		return
	}
	runCommand(t, imagesScript(t, append([]string{engine}, names...)...))
	for _, name := range names {
		alreadyBuilt[engine+" "+name] = true
	}
}

// alreadyBuilt are the images that these tests have built, by engine and name.
var alreadyBuilt = map[string]bool{}

func needPrograms(t *testing.T) {
	t.Helper()
	for _, name := range []string{"sandboxctl", "gitleaks", "batlehub-sandbox-linux-" + runtime.GOARCH} {
		if _, err := os.Stat(filepath.Join(checkout, "out/bin", name)); err != nil {
			c := exec.CommandContext(t.Context(), "./task", "build", "gitleaks")
			c.Dir = checkout
			runCommand(t, c)
			return
		}
	}
}

func runCommand(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(c.Args, " "), err, out)
	}
}

func asExit(err error, status **exec.ExitError) bool { return errors.As(err, status) }

func finalLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
