package heavy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/image"
)

// localRooms are the scanners' images that any host of these tests can build
// quickly; what else there is, scripts/images.sh builds and checks alike.
var localRooms = []string{"gitleaks", "yara"}

// The images are built by the engine itself without any registry, hold what
// their list allows, and the trees made of them are the same files.
func TestImagesAndTheirTreesAreTheSameFiles(t *testing.T) {
	forEachEngine(t, func(t *testing.T, engine string) {
		buildImages(t, engine, append([]string{"agent"}, localRooms...)...)
		for _, name := range localRooms {
			i := builtImage(t, engine, name)
			tree, err := image.Tree(filepath.Join(checkout, "out/rooms", name))
			if err != nil {
				t.Fatal(err)
			}
			sameFiles(t, name, asInARoom(i.Files), tree)
		}
	})
}

func TestAnImageOfAScannerHasNoShellNoEntrypointAndNoRoot(t *testing.T) {
	forEachEngine(t, func(t *testing.T, engine string) {
		names := append([]string{"agent"}, localRooms...)
		buildImages(t, engine, names...)
		for _, name := range names {
			i := builtImage(t, engine, name)
			if i.Config.User != "65532:65532" || i.Config.WorkingDir != "/work" {
				t.Errorf("%s: user %q in %q, want 65532:65532 in /work", name, i.Config.User, i.Config.WorkingDir)
			}
			if len(i.Config.Entrypoint)+len(i.Config.Cmd) != 0 {
				t.Errorf("%s: starts %q %q by itself", name, i.Config.Entrypoint, i.Config.Cmd)
			}
			for _, p := range []string{"/work", "/bundle", "/proc", "/dev", "/usr/bin"} {
				if f, there := i.Find(p); !there || f.Type != "dir" {
					t.Errorf("%s: %s is no directory", name, p)
				}
			}
		}
		noShell(t, engine, "gitleaks")
	})
}

// noShell looks as a container does: nothing of the kind can be started.
func noShell(t *testing.T, engine, name string) {
	t.Helper()
	for _, program := range []string{"/bin/sh", "busybox", "apt-get", "sandboxctl"} {
		c := engineCommand(t, engine, "run", "--rm", "--network", "none", imageName(name), program, "--version")
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "not found") && !strings.Contains(string(out), "no such file") {
			t.Errorf("%s in %s: error %v, want that it is not there: %s", program, name, err, out)
		}
	}
	out, err := engineCommand(t, engine, "run", "--rm", "--network", "none", imageName(name), "batlehub-sandbox").CombinedOutput()
	if status := new(exec.ExitError); err == nil || !asExit(err, &status) || status.ExitCode() > 64 {
		t.Errorf("the agent of %s does not start: %v: %s", name, err, out)
	}
}

func TestTheWorkersImageHasOneTreePerScannerAndKnowsItsName(t *testing.T) {
	forEachEngine(t, func(t *testing.T, engine string) {
		buildImages(t, engine, append(slices.Clone(localRooms), "worker")...)
		worker := builtImage(t, engine, "worker")
		for _, name := range localRooms {
			var below []image.File
			for _, f := range worker.Files {
				if p, is := strings.CutPrefix(f.Path, "/opt/sandbox/"+name+"/"); is {
					f.Path = "/" + p
					below = append(below, f)
				}
			}
			sameFiles(t, name, builtImage(t, engine, name).Files, below)
		}
		if !slices.Contains(worker.Config.Env, "BATLEHUB_IMAGE="+imageName("worker")) {
			t.Errorf("its environment is %q, want BATLEHUB_IMAGE=%s", worker.Config.Env, imageName("worker"))
		}
		for _, p := range []string{"/usr/local/bin/batlehub-sandbox", "/usr/local/bin/sandboxctl", "/work", "/bundle"} {
			if _, there := worker.Find(p); !there {
				t.Errorf("%s is missing", p)
			}
		}
		if len(worker.Config.Entrypoint) != 0 {
			t.Errorf("its entrypoint %q would be put before the agent's command line", worker.Config.Entrypoint)
		}
	})
}

// Podman's builder makes the same image twice; Docker 20.10 has no way to fix
// the times of directories, so there the files alone are the same.
func TestAnImageBuiltTwiceIsTheSame(t *testing.T) {
	forEachEngine(t, func(t *testing.T, engine string) {
		var built []record
		for range 2 {
			c := imagesScript(t, engine, "agent")
			c.Env = append(c.Env, "NO_CACHE=1")
			runCommand(t, c)
			built = append(built, builtRecord(t, engine, "agent"))
		}
		if engine == "podman" && built[0].Reference != built[1].Reference {
			t.Errorf("two builds: %s and %s", built[0].Reference, built[1].Reference)
		}
		if !reflect.DeepEqual(built[0].Files, built[1].Files) {
			t.Error("two builds hold different files")
		}
	})
}

// record is the part of out/images/NAME.json that these tests read.
type record struct {
	Reference, Digest, Engine, User string
	Files                           []image.File
}

func builtRecord(t *testing.T, engine, name string) record {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(checkout, "out/images", engine, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func builtImage(t *testing.T, engine, name string) *image.Image {
	t.Helper()
	i, err := image.Open(filepath.Join(checkout, "out/images", engine, name+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// asInARoom is an image's files with the modes of a room: what may be executed
// or not, and nothing else. The mount points are among them: a sandbox mounts
// over them, whatever their mode.
func asInARoom(files []image.File) []image.File {
	files = slices.Clone(files)
	for i := range files {
		switch f := &files[i]; f.Type {
		case "dir":
			f.Mode = "0755"
		case "file":
			executable := strings.ContainsAny(f.Mode, "1357")
			f.Mode = "0644"
			if executable {
				f.Mode = "0755"
			}
		}
	}
	return files
}

func sameFiles(t *testing.T, name string, want, got []image.File) {
	t.Helper()
	index := map[string]image.File{}
	for _, f := range got {
		f.UID, f.GID = 0, 0
		index[f.Path] = f
	}
	for _, w := range want {
		w.UID, w.GID = 0, 0
		g, there := index[w.Path]
		delete(index, w.Path)
		switch {
		case !there:
			t.Errorf("%s: %s is in the image and not in the tree", name, w.Path)
		case w != g:
			t.Errorf("%s: the image has %+v, the tree %+v", name, w, g)
		}
	}
	for p := range index {
		t.Errorf("%s: %s is in the tree and not in the image", name, p)
	}
}
