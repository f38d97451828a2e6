package crun

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// bareRoom is a room with an agent that is none, which is enough where nothing
// is started.
func bareRoom(t *testing.T) (parent, dir string) {
	t.Helper()
	parent = testkit.Dir(t)
	dir = filepath.Join(parent, "scanner")
	for _, name := range []string{"proc", "dev", "work", "bundle", "out", "usr/bin", "usr/local/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	chmod(t, filepath.Join(dir, "work"), 0o777|fs.ModeSticky)
	put(t, filepath.Join(dir, AgentPath), "the agent")
	chmod(t, filepath.Join(dir, AgentPath), 0o755)
	put(t, filepath.Join(dir, "usr/bin/tool"), "a tool")
	if err := os.Symlink("work/tmp", filepath.Join(dir, "tmp")); err != nil {
		t.Fatal(err)
	}
	return parent, dir
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// changes are all the ways in which a tree can be another.
var changes = map[string]func(dir string) error{
	"a changed file": func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "usr/bin/tool"), []byte("A tool"), 0o644)
	},
	"a longer file": func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "usr/bin/tool"), []byte("a tool "), 0o644)
	},
	"an added file":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "usr/bin/new"), nil, 0o644) },
	"an added directory": func(dir string) error { return os.Mkdir(filepath.Join(dir, "opt"), 0o755) },
	"a removed file":     func(dir string) error { return os.Remove(filepath.Join(dir, "usr/bin/tool")) },
	"a renamed file": func(dir string) error {
		return os.Rename(filepath.Join(dir, "usr/bin/tool"), filepath.Join(dir, "usr/bin/loot"))
	},
	"another mode":           func(dir string) error { return os.Chmod(filepath.Join(dir, "usr/bin/tool"), 0o755) },
	"a set-id bit":           func(dir string) error { return os.Chmod(filepath.Join(dir, "usr/bin/tool"), 0o644|fs.ModeSetuid) },
	"another directory mode": func(dir string) error { return os.Chmod(filepath.Join(dir, "usr"), 0o700) },
	"another link": func(dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, "tmp")), os.Symlink("work/tpm", filepath.Join(dir, "tmp")))
	},
	"a link for a file": func(dir string) error {
		tool := filepath.Join(dir, "usr/bin/tool")
		return errors.Join(os.Remove(tool), os.Symlink("/etc/passwd", tool))
	},
	"a FIFO": func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "usr/fifo"), 0o644) },
}

func TestTheDigestIsOfEverythingButOwnersAndTimes(t *testing.T) {
	_, dir := bareRoom(t)
	want, err := Digest(t.Context(), dir)
	if err != nil || !strings.HasPrefix(want, "sha256:") || len(want) != 71 {
		t.Fatalf("got %q, %v", want, err)
	}
	if err := os.Chtimes(filepath.Join(dir, "usr/bin/tool"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, err := Digest(t.Context(), dir); err != nil || got != want {
		t.Errorf("another time makes it %q, %v", got, err)
	}
	seen := map[string]string{want: "the tree itself"}
	for what, change := range changes {
		_, dir := bareRoom(t)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		got, err := Digest(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if same, ok := seen[got]; ok {
			t.Errorf("%s has the digest of %s", what, same)
		}
		seen[got] = what
	}
	if _, err := Digest(t.Context(), filepath.Join(dir, "nothing")); err == nil {
		t.Error("a tree that is not there has a digest")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Digest(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Each change is found before a run, although only the first look reads files.
func TestAChangedRoomIsRefusedBeforeTheNextRun(t *testing.T) {
	for what, change := range changes {
		parent, dir := bareRoom(t)
		if _, err := WritePin(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		r := rooms{dir: parent, base: DefaultUsernsBase}
		for range 2 {
			if path, fault := r.find(t.Context(), "scanner", false); fault != nil || path != dir {
				t.Fatalf("%s: got %q, %v", what, path, fault)
			}
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		_, fault := r.find(t.Context(), "scanner", false)
		if fault == nil || fault.Code != sandbox.CodeImageMissing || !strings.Contains(fault.Error(), dir) {
			t.Errorf("%s: got %v", what, fault)
		}
	}
}

func TestARoomThatCantBeUsedIsRefusedWithItsPath(t *testing.T) {
	for what, c := range map[string]struct {
		change func(t *testing.T, dir string)
		says   string
		pinned bool // tree --pin takes it: it has looked for these itself
	}{
		"no agent": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, AgentPath)) }, "no agent", true},
		"an agent that is a directory": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, AgentPath))
			put(t, filepath.Join(dir, AgentPath, "x"), "")
		}, "not a regular file", true},
		"an agent that is a link": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, AgentPath))
			if err := os.Symlink("/usr/bin/tool", filepath.Join(dir, AgentPath)); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file", true},
		"an agent that can't be executed": {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, AgentPath), 0o644) }, "not executable", false},
		"no /proc":                        {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "proc")) }, "/proc", true},
		"no /dev":                         {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "dev")) }, "/dev", true},
		"no /work":                        {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "work")) }, "/work", true},
		"no /bundle":                      {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "bundle")) }, "/bundle", true},
		"no /out":                         {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "out")) }, "/out", true},
		"no /tmp":                         {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "tmp")) }, "/tmp", true},
		"a /work of another mode":         {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "work"), 0o755) }, "mode 1777", true},
		"a file that a sandbox owns": {func(t *testing.T, dir string) {
			give(t, filepath.Join(dir, "usr/bin/tool"), DefaultUsernsBase+65532)
		}, "/usr/bin/tool belongs to uid 165532", false},
		"a directory of a sandbox's group": {func(t *testing.T, dir string) {
			if os.Chown(filepath.Join(dir, "usr"), 0, DefaultUsernsBase) != nil {
				t.Skip("not run: it takes root to give files away")
			}
		}, "/usr belongs to gid 100000", false},
		"a file that everybody may write":   {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "usr/bin/tool"), 0o646) }, "/usr/bin/tool is writable for others", false},
		"a directory of a group's":          {func(t *testing.T, dir string) { share(t, filepath.Join(dir, "usr"), 50, 0o775) }, "/usr is writable for others", false},
		"a directory with the sticky bit":   {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "usr"), 0o777|fs.ModeSticky) }, "/usr is writable for others", false},
		"a directory of somebody else's":    {func(t *testing.T, dir string) { give(t, filepath.Join(dir, "usr"), 1234) }, "/usr belongs to uid 1234", false},
		"a link of somebody else's":         {func(t *testing.T, dir string) { give(t, filepath.Join(dir, "tmp"), 1234) }, "/tmp belongs to uid 1234", false},
		"an agent for its owner alone":      {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, AgentPath), 0o700) }, "not executable for everybody", false},
		"an agent that is not to be got at": {func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "usr/local"), 0o700) }, "/usr/local is not searchable", false},
		"a room for its owner alone":        {func(t *testing.T, dir string) { chmod(t, dir, 0o700) }, "its / is not searchable", false},
	} {
		t.Run(what, func(t *testing.T) {
			parent, dir := bareRoom(t)
			c.change(t, dir)
			digest, err := Digest(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			r := rooms{dir: parent, base: DefaultUsernsBase, digests: map[string]string{"scanner": digest}}
			_, fault := r.find(t.Context(), "scanner", false)
			if fault == nil || fault.Kind != sandbox.Refused || fault.Code != sandbox.CodeImageMissing ||
				!strings.Contains(fault.Error(), c.says) || !strings.Contains(fault.Error(), dir) {
				t.Errorf("got %v, want image_missing about %q", fault, c.says)
			}
			_, err = WritePin(t.Context(), dir)
			if (err == nil) != c.pinned || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("pinning it: %v, want something about %q", err, c.says)
			}
			if _, err := os.Lstat(dir + PinSuffix); (err == nil) != c.pinned {
				t.Errorf("the pin: %v", err)
			}
		})
	}
}

// give makes somebody else the owner.
func give(t *testing.T, path string, uid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to give files away")
	}
	if err := os.Lchown(path, uid, 0); err != nil {
		t.Fatal(err)
	}
}

// share lets a group write.
func share(t *testing.T, path string, gid int, mode fs.FileMode) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to give files away")
	}
	if err := os.Chown(path, -1, gid); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestRoomsThatAreNotConfiguredOrNotThereAreRefused(t *testing.T) {
	parent, dir := bareRoom(t)
	if err := os.Symlink("/", filepath.Join(parent, "root")); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		rooms   *rooms
		scanner string
		code    sandbox.Code
		says    string
	}{
		"none configured":     {&rooms{}, "scanner", sandbox.CodeConfig, "rooms"},
		"a relative path":     {&rooms{dir: "rooms"}, "scanner", sandbox.CodeConfig, "not an absolute path"},
		"no such room":        {&rooms{dir: parent}, "other", sandbox.CodeImageMissing, filepath.Join(parent, "other")},
		"the host's own root": {&rooms{dir: parent}, "root", sandbox.CodeConfig, "own root"},
		"no digest":           {&rooms{dir: parent}, "scanner", sandbox.CodeImageMissing, "no digest is pinned"},
		"another digest":      {&rooms{dir: parent, base: DefaultUsernsBase, digests: map[string]string{"scanner": "sha256:00"}}, "scanner", sandbox.CodeImageMissing, "sha256:00"},
		"an empty digest":     {&rooms{dir: parent, base: DefaultUsernsBase, digests: map[string]string{"scanner": ""}}, "scanner", sandbox.CodeImageMissing, "pinned"},
	} {
		_, fault := c.rooms.find(t.Context(), c.scanner, false)
		if fault == nil || fault.Code != c.code || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("%s: got %v, want %s about %q", what, fault, c.code, c.says)
		}
	}
	digest, err := Digest(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	r := rooms{dir: parent, base: DefaultUsernsBase, digests: map[string]string{"scanner": digest}}
	if _, fault := r.find(t.Context(), "scanner", true); fault != nil {
		t.Error(fault)
	}
}

// A file system that lies about times can't fool a probe.
func TestAProbeReadsTheWholeRoomAgain(t *testing.T) {
	parent, dir := bareRoom(t)
	digest, err := Digest(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	r := rooms{dir: parent, base: DefaultUsernsBase, digests: map[string]string{"scanner": digest}}
	if _, fault := r.find(t.Context(), "scanner", false); fault != nil {
		t.Fatal(fault)
	}
	if err := changes["a changed file"](dir); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := surveyTree(t.Context(), root, DefaultUsernsBase)
	if err != nil {
		t.Fatal(err)
	}
	r.verified["scanner"] = verified{digest: digest, state: s.state}
	if _, fault := r.find(t.Context(), "scanner", false); fault != nil {
		t.Fatalf("the test shows nothing: %v", fault)
	}
	if _, fault := r.find(t.Context(), "scanner", true); fault == nil || fault.Code != sandbox.CodeImageMissing {
		t.Errorf("got %v", fault)
	}
}

func TestAPinIsWrittenBesideTheRoomAndReplaced(t *testing.T) {
	parent, dir := bareRoom(t)
	first, err := WritePin(t.Context(), dir+"/")
	if err != nil {
		t.Fatal(err)
	}
	if err := changes["a changed file"](dir); err != nil {
		t.Fatal(err)
	}
	second, err := WritePin(t.Context(), dir)
	if err != nil || first == second {
		t.Errorf("got %q and %q, %v", first, second, err)
	}
	b, err := os.ReadFile(filepath.Join(parent, "scanner.digest"))
	if err != nil || string(b) != second+"\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if _, err := WritePin(t.Context(), filepath.Join(parent, "nothing")); err == nil {
		t.Error("what is not there was pinned")
	}
}
