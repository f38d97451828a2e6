package crun

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// A look before a run, with all that was found good before, is enough to see
// each of these.
func TestWhoCanChangeTheWayToARoomMayNotBeSomebodyElse(t *testing.T) {
	for what, c := range map[string]struct {
		change func(t *testing.T, rooms string)
		says   string
	}{
		"a directory of rooms for everybody":     {func(t *testing.T, rooms string) { chmod(t, rooms, 0o777) }, "is writable for others"},
		"one with the sticky bit":                {func(t *testing.T, rooms string) { chmod(t, rooms, 0o777|fs.ModeSticky) }, "is writable for others"},
		"one of a group's":                       {func(t *testing.T, rooms string) { share(t, rooms, 50, 0o775) }, "is writable for others"},
		"one of somebody else's":                 {func(t *testing.T, rooms string) { give(t, rooms, 1234) }, "belongs to uid 1234"},
		"what it is in, for everybody":           {func(t *testing.T, rooms string) { chmod(t, filepath.Dir(rooms), 0o777) }, "is writable for others"},
		"what it is in, somebody else's":         {func(t *testing.T, rooms string) { give(t, filepath.Dir(rooms), 1234) }, "belongs to uid 1234"},
		"a room of somebody else's":              {func(t *testing.T, rooms string) { give(t, filepath.Join(rooms, "scanner"), 1234) }, "belongs to uid 1234"},
		"a pin of somebody else's":               {func(t *testing.T, rooms string) { give(t, filepath.Join(rooms, "scanner.digest"), 1234) }, "belongs to uid 1234"},
		"a pin for everybody":                    {func(t *testing.T, rooms string) { chmod(t, filepath.Join(rooms, "scanner.digest"), 0o666) }, "is writable for others"},
		"an agent of somebody else's":            {func(t *testing.T, rooms string) { give(t, filepath.Join(rooms, "scanner", AgentPath), 1234) }, "belongs to uid 1234"},
		"what it is in, which nobody may search": {func(t *testing.T, rooms string) { chmod(t, filepath.Dir(rooms), 0o700) }, "is not searchable for everybody"},
	} {
		t.Run(what, func(t *testing.T) {
			r, dir := pinnedRoom(t)
			if _, fault := r.find(t.Context(), "scanner", false); fault != nil {
				t.Fatal(fault)
			}
			c.change(t, dir)
			if _, fault := r.find(t.Context(), "scanner", false); fault == nil || fault.Kind != sandbox.Refused || !strings.Contains(fault.Error(), c.says) {
				t.Errorf("got %v, want a refusal about %q", fault, c.says)
			}
		})
	}
}

// pinnedRoom is a room in a directory that tests may change what they like of.
func pinnedRoom(t *testing.T) (r *rooms, dir string) {
	t.Helper()
	parent, room := bareRoom(t)
	dir = filepath.Join(parent, "rooms")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(room, filepath.Join(dir, "scanner")); err != nil {
		t.Fatal(err)
	}
	if _, err := WritePin(t.Context(), filepath.Join(dir, "scanner")); err != nil {
		t.Fatal(err)
	}
	return &rooms{dir: dir, base: DefaultUsernsBase}, dir
}

// A room may be built elsewhere than where it is used, under any umask.
func TestWhereARoomIsUsedIsNotForItsPinToSay(t *testing.T) {
	r, dir := pinnedRoom(t)
	for what, open := range map[string]func(){
		"for everybody":   func() { chmod(t, dir, 0o777|fs.ModeSticky) },
		"for a group":     func() { share(t, dir, 50, 0o775) },
		"somebody else's": func() { give(t, dir, 1234) },
	} {
		chmod(t, dir, 0o755)
		open()
		if _, err := WritePin(t.Context(), filepath.Join(dir, "scanner")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, fault := r.find(t.Context(), "scanner", true); fault == nil || !strings.Contains(fault.Error(), dir+", is not safe from others") {
			t.Errorf("%s: a run says %v", what, fault)
		}
	}
}

// A program takes no link for its root: it is given the place itself.
func TestALinkToARoomIsFollowedUnlessOthersCouldSetIt(t *testing.T) {
	_, dir := pinnedRoom(t)
	elsewhere := testkit.Dir(t)
	linked := filepath.Join(elsewhere, "rooms")
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	find := func(dir, scanner string) (string, *sandbox.Error) {
		r := rooms{dir: dir, base: DefaultUsernsBase}
		return r.find(t.Context(), scanner, true)
	}
	want := filepath.Join(dir, "scanner")
	if got, fault := find(linked, "scanner"); fault != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, fault, want)
	}
	if err := os.Symlink("scanner", filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if _, err := WritePin(t.Context(), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if got, fault := find(dir, "other"); fault != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, fault, want)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, fault := find(dir, "loop"); fault == nil || !strings.Contains(fault.Error(), unix.ELOOP.Error()) {
		t.Errorf("got %v", fault)
	}
	give(t, linked, 1234)
	if _, fault := find(linked, "scanner"); fault == nil || !strings.Contains(fault.Error(), linked+" belongs to uid 1234") {
		t.Errorf("got %v", fault)
	}
}

func TestNothingIsMountedInARoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to mount")
	}
	for what, mount := range map[string]func(at string) error{
		"another file system": func(at string) error { return unix.Mount("test", at, "tmpfs", 0, "size=1m,mode=755") },
		// It is of the same device, and as empty as what it covers.
		"a directory of the same": func(at string) error { return unix.Mount(testkit.Dir(t), at, "", unix.MS_BIND, "") },
	} {
		t.Run(what, func(t *testing.T) {
			r, dir := pinnedRoom(t)
			room := filepath.Join(dir, "scanner")
			at := filepath.Join(room, "usr/empty")
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := WritePin(t.Context(), room); err != nil {
				t.Fatal(err)
			}
			if _, fault := r.find(t.Context(), "scanner", false); fault != nil {
				t.Fatal(fault)
			}
			if err := mount(at); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			for _, thorough := range []bool{false, true} {
				if _, fault := r.find(t.Context(), "scanner", thorough); fault == nil || !strings.Contains(fault.Error(), at+" is a mount") {
					t.Errorf("got %v", fault)
				}
			}
			if _, err := WritePin(t.Context(), room); err == nil || !strings.Contains(err.Error(), at+" is a mount") {
				t.Errorf("pinning it: %v", err)
			}
		})
	}
}

// A room that is a mount itself is of one piece.
func TestARoomOnAMountOfItsOwnIsTakenUnlessItIsNoexec(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to mount")
	}
	r, dir := pinnedRoom(t)
	room := filepath.Join(dir, "scanner")
	if err := unix.Mount(room, room, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(room, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, fault := r.find(t.Context(), "scanner", true); fault != nil {
		t.Error(fault)
	}
	if err := unix.Mount("", room, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	if _, fault := r.find(t.Context(), "scanner", false); fault == nil || !strings.Contains(fault.Error(), "noexec") {
		t.Errorf("got %v", fault)
	}
	if _, err := WritePin(t.Context(), room); err == nil || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("pinning it: %v", err)
	}
}

// onOverlay lays an overlay of two file systems over dir: what dir holds is on
// the lower one.
func onOverlay(t *testing.T, dir string) {
	t.Helper()
	layers := testkit.Dir(t)
	lower, upper := filepath.Join(layers, "lower"), filepath.Join(layers, "upper")
	for _, at := range []string{lower, upper} {
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		mountFor(t, "tmpfs", at, "tmpfs", "size=1m,mode=755")
	}
	if err := os.CopyFS(lower, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	chmod(t, filepath.Join(lower, "scanner/work"), 0o777|fs.ModeSticky)
	for _, name := range []string{"diff", "work"} {
		if err := os.Mkdir(filepath.Join(upper, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mountFor(t, "overlay", dir, "overlay", "lowerdir="+lower+",upperdir="+upper+"/diff,workdir="+upper+"/work,xino=off")
}

// mountFor mounts for the time of a test.
func mountFor(t *testing.T, source, at, kind, options string) {
	t.Helper()
	if err := unix.Mount(source, at, kind, 0, options); err != nil {
		t.Skipf("not run: no %s can be mounted here: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func deviceOf(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// Its directories and its files are of different devices, and nothing is mounted
// in it.
func TestARoomOnAnOverlayIsOfOnePiece(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to mount")
	}
	r, dir := pinnedRoom(t)
	onOverlay(t, dir)
	room := filepath.Join(dir, "scanner")
	if deviceOf(t, room) == deviceOf(t, filepath.Join(room, AgentPath)) {
		t.Skip("not run: this kernel gives all of an overlay one device")
	}
	for _, thorough := range []bool{false, true} {
		if _, fault := r.find(t.Context(), "scanner", thorough); fault != nil {
			t.Error(fault)
		}
	}
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Error(err)
	}
	at := filepath.Join(room, "usr/bin")
	mountFor(t, "tmpfs", at, "tmpfs", "size=1m,mode=755")
	for _, thorough := range []bool{false, true} {
		if _, fault := r.find(t.Context(), "scanner", thorough); fault == nil || !strings.Contains(fault.Error(), at+" is a mount") {
			t.Errorf("with a mount in it: %v", fault)
		}
	}
}

// A umask of 002 makes such, and root's own group is not somebody else.
func TestWhatRootsGroupMayWriteIsTaken(t *testing.T) {
	_, dir := pinnedRoom(t)
	room := filepath.Join(dir, "scanner")
	program := filepath.Join(testkit.Dir(t), "runc")
	put(t, program, "#!/bin/sh\necho runc version 1.1.5\n")
	state := filepath.Join(testkit.Dir(t), "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, room, filepath.Join(room, "usr"), filepath.Join(room, AgentPath), program, filepath.Dir(program), state} {
		share(t, path, 0, 0o775)
	}
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	share(t, room+PinSuffix, 0, 0o664)
	r, err := New(Config{Program: program, Rooms: dir, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	if _, fault := r.rooms.find(t.Context(), "scanner", true); fault != nil {
		t.Error(fault)
	}
	if _, fault := r.finder.find(t.Context(), program); fault != nil {
		t.Error(fault)
	}
	if fault := r.checkState(); fault != nil {
		t.Error(fault)
	}
}

// Nobody has to be told of one file after the other.
func TestWhatToDoAboutARoomIsSaidOnceForAllOfIt(t *testing.T) {
	for what, spoil := range map[string]func(t *testing.T, path string){
		"somebody else's":   func(t *testing.T, path string) { give(t, path, 1234) },
		"a sandbox's":       func(t *testing.T, path string) { give(t, path, DefaultUsernsBase) },
		"a sandbox's group": func(t *testing.T, path string) { share(t, path, DefaultUsernsBase, 0o755) },
		"for everybody":     func(t *testing.T, path string) { chmod(t, path, 0o777) },
		"for a group":       func(t *testing.T, path string) { share(t, path, 50, 0o775) },
	} {
		t.Run(what, func(t *testing.T) {
			_, dir := bareRoom(t)
			for _, name := range []string{"", "usr", "usr/bin", "usr/bin/tool", AgentPath, "proc"} {
				spoil(t, filepath.Join(dir, name))
			}
			_, err := WritePin(t.Context(), dir)
			if err == nil {
				t.Fatal("it was pinned")
			}
			_, fix, _ := strings.Cut(err.Error(), "(")
			fix = strings.TrimSuffix(fix, ")")
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", fix).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", fix, err, out)
			}
			if _, err := WritePin(t.Context(), dir); err != nil {
				t.Errorf("after %s: %v", fix, err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if fault := checkMountPoints(root); fault != "" {
				t.Errorf("after %s: %s", fix, fault)
			}
		})
	}
}

// It is seen again at each run, although the program is asked only once.
func TestAProgramThatOthersMayChangeIsNotRun(t *testing.T) {
	for what, c := range map[string]struct {
		change func(t *testing.T, program string)
		says   string
	}{
		"for everybody":                  {func(t *testing.T, program string) { chmod(t, program, 0o777) }, "is writable for others"},
		"for its group":                  {func(t *testing.T, program string) { share(t, program, 50, 0o775) }, "is writable for others"},
		"somebody else's":                {func(t *testing.T, program string) { give(t, program, 1234) }, "belongs to uid 1234"},
		"in a directory of a group's":    {func(t *testing.T, program string) { share(t, filepath.Dir(program), 50, 0o775|fs.ModeSetgid) }, "is writable for others"},
		"in a directory for everybody":   {func(t *testing.T, program string) { chmod(t, filepath.Dir(program), 0o777) }, "is writable for others"},
		"in a directory of another's":    {func(t *testing.T, program string) { give(t, filepath.Dir(program), 1234) }, "belongs to uid 1234"},
		"a link to what others may make": {linkToOpen, "is writable for others"},
	} {
		t.Run(what, func(t *testing.T) {
			program := filepath.Join(testkit.Dir(t), "runc")
			put(t, program, "#!/bin/sh\necho runc version 1.1.5\n")
			chmod(t, program, 0o755)
			var f finder
			if _, fault := f.find(t.Context(), program); fault != nil {
				t.Fatal(fault)
			}
			c.change(t, program)
			_, fault := f.find(t.Context(), program)
			if fault == nil || fault.Code != sandbox.CodeConfig || !strings.Contains(fault.Error(), c.says) {
				t.Fatalf("got %v, want a refusal about %q", fault, c.says)
			}
			if !strings.Contains(fault.Hint, "program to a copy in a directory that only root may write") {
				t.Errorf("the hint is %q", fault.Hint)
			}
		})
	}
}

// linkToOpen puts a link to a copy in a directory for everybody in the place of
// a program.
func linkToOpen(t *testing.T, program string) {
	t.Helper()
	open := filepath.Join(testkit.Dir(t), "runc")
	if err := os.Rename(program, open); err != nil {
		t.Fatal(err)
	}
	chmod(t, filepath.Dir(open), 0o777)
	if err := os.Symlink(open, program); err != nil {
		t.Fatal(err)
	}
}
