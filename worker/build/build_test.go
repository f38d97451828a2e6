package build

import (
	"go/parser"
	"go/token"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

func sandboxConfig(t *testing.T, runtime string) config.Sandbox {
	t.Helper()
	c, err := config.Load(filepath.Join("testdata", "empty.toml"))
	if err != nil {
		t.Fatal(err)
	}
	c.Worker.Sandbox.Runtime = runtime
	return c.Worker.Sandbox
}

func TestEachRuntimeOfThisBuildIsMadeFromItsConfiguration(t *testing.T) {
	for _, c := range []struct {
		runtime, work, placement string
		walls                    bool
	}{
		{"none", ".", "", false},
		{"bwrap", "/work", "rooms in /opt/sandbox", true},
		{"crun", "/work", "program crun, rooms in /opt/sandbox", true},
		{"oci", "/work", "engine podman, images a b, transport mount", false},
	} {
		b, err := Runtime(Options{Sandbox: sandboxConfig(t, c.runtime), Unsafe: true, Worker: "w"})
		if err != nil {
			t.Fatal(err)
		}
		if b.Name() != c.runtime || b.Work != c.work || b.Placement("b", "a", "b") != c.placement || b.Walls != c.walls {
			t.Errorf("%s: %+v", c.runtime, b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestARuntimeThatIsNotInThisBuildIsRefused(t *testing.T) {
	for _, name := range []string{"kubernetes", "remote", "x", ""} {
		b, err := Runtime(Options{Sandbox: sandboxConfig(t, name)})
		if err == nil || !config.IsConfig(err) || b.Runtime != nil {
			t.Errorf("%q: %+v, %v", name, b, err)
		}
	}
}

func TestACanaryThatNoSandboxCouldReachIsRefused(t *testing.T) {
	o := Options{Sandbox: sandboxConfig(t, "bwrap")}
	o.Canaries = append(o.Canaries, loopback)
	if _, err := Runtime(o); sandbox.CodeOf(err) != sandbox.CodeConfig {
		t.Errorf("error %v", err)
	}
}

func TestAPlaceForRunsThatIsNotThereIsRefusedAndNotMade(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(parent, "a", "b"): "does not exist; make the directory", file: "is no directory", filepath.Join(file, "x"): "can't be looked at",
	} {
		for _, runtime := range []string{"none", "bwrap"} {
			o := Options{Sandbox: sandboxConfig(t, runtime), Unsafe: true, Worker: "w"}
			o.Sandbox.RunDir = dir
			if _, err := Runtime(o); !config.IsConfig(err) || !strings.Contains(err.Error(), "run_dir is "+dir) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", dir, err, want)
			}
			o.Sandbox.RunDir = ""
			t.Setenv("TMPDIR", dir)
			if _, err := Runtime(o); !config.IsConfig(err) || !strings.Contains(err.Error(), "TMPDIR") || !strings.Contains(err.Error(), want[:7]) {
				t.Errorf("TMPDIR=%s: %v, want %q", dir, err, want)
			}
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("made %v, %v", entries, err)
	}
}

// One more runtime is one more case in this package, and nothing elsewhere.
func TestNoOtherPackageNamesARuntime(t *testing.T) {
	allowed := map[string]bool{"sandbox": true, "bundle": true, "room": true, "firewall": true, "sandbox/sandboxtest": true}
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Dir(path) == filepath.Join("..", "build") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			if rest, is := strings.CutPrefix(name, "github.com/batleforc/batlehub-sandbox/runtime/"); is && !allowed[rest] {
				t.Errorf("%s imports %s", path, name)
			}
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

var loopback = netip.MustParseAddrPort("127.0.0.1:80")
