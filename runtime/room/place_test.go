package room_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// What is put where nothing of it would be seen is refused with the reason.
func TestAPlaceFromWhichAFileWouldVanishIsRefused(t *testing.T) {
	src := t.TempDir()
	file := write(t, filepath.Join(src, "file"), "x", 0o755)
	dir := filepath.Join(src, "dir")
	write(t, filepath.Join(dir, "a"), "x", 0o644)
	if err := os.Symlink("work", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, to, want string }{
		{file, "/tmp/x", "/tmp/x would not be seen: /tmp is in"},
		{file, "/work/x", "/work/x would not be seen: /work is"},
		{file, "/work/tmp/x", "/work/tmp/x would not be seen"},
		{file, "/proc/x", "the sandbox has a /proc of its own"},
		{file, "/dev/x", "the sandbox has a /dev of its own"},
		{file, "/link/x", "/work/x would not be seen"},
		{dir, "/work", "what is put in /work would not be seen"},
		{dir, "/dev/shm", "/dev/shm would not be seen"},
		{file, "/usr/local/bin", "/usr/local/bin is a directory of the room; name the file in it, as in /usr/local/bin/name=…"},
		{file, "/usr/local/bin/", "/usr/local/bin is a directory of the room"},
		{file, "/usr", "/usr is a directory"},
		{file, "/", "/ is a directory"},
		{file, "/work", "/work is a directory"},
		{file, "/tmp", "/tmp is a directory"},
		{file, "/../dev", "/dev is a directory"},
		{file, "/" + room.AgentPath, "is the agent's place"},
		{file, "/opt", "/opt is a directory"},
	} {
		at := filepath.Join(t.TempDir(), "room")
		o := room.Options{Agent: agent(t), From: []room.Source{{Path: dir}, {Path: dir, To: "/opt"}, {Path: c.path, To: c.to}}}
		if _, err := room.Build(t.Context(), at, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: got %v, want %q", filepath.Base(c.path), c.to, err, c.want)
		}
		onlyEmpty(t, filepath.Dir(at))
	}
}

func TestACommandThatIsNoProgramIsSaidSo(t *testing.T) {
	src := t.TempDir()
	plain := write(t, filepath.Join(src, "scanner"), "x", 0o644)
	for _, c := range []struct{ command, want string }{
		{"scanner", "/usr/local/bin/scanner is not executable; chmod +x"},
		{"/usr/local/bin/scanner", "/usr/local/bin/scanner is not executable"},
		{"/usr/bin", "/usr/bin is not a file"},
		{"other", "there is no such program"},
	} {
		_, err := room.Build(t.Context(), filepath.Join(t.TempDir(), "room"), room.Options{Agent: agent(t), From: []room.Source{{Path: plain}}, Commands: []string{c.command}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.command, err, c.want)
		}
	}
}

// The probe stands in another module and can't share the list.
func TestARoomAndItsProbeKnowTheSameShells(t *testing.T) {
	here, probe := unwanted(t, "check.go"), unwanted(t, "../../agent/internal/probe/programs.go")
	if len(here) < 10 || !slices.Equal(here, probe) {
		t.Errorf("the room knows %q, the probe %q", here, probe)
	}
	for _, name := range here {
		dir, _ := build(t, room.Options{Agent: agent(t)})
		write(t, filepath.Join(dir, "usr/bin", name), "", 0o644)
		if problems, err := room.Check(dir); err != nil || len(problems) != 1 || problems[0].Rule != room.RuleShell {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

// unwanted is the list of that name in a source file.
func unwanted(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, is := n.(*ast.ValueSpec)
		if !is || v.Names[0].Name != "unwanted" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			name, err := strconv.Unquote(e.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return false
	})
	return names
}
