package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const markerClosed = "test: what is in reach behind a closed directory"

// This test binary is also the scanner that tries a closed directory.
func init() {
	if os.Args[0] == markerClosed {
		tryClosed(os.Args[1], os.Args[2])
		os.Exit(0)
	}
}

func tryClosed(closed, work string) {
	answer := func(what string, err error) {
		var e unix.Errno
		switch {
		case err == nil:
			fmt.Println(what, "ok")
		case errors.As(err, &e):
			fmt.Println(what, unix.ErrnoName(e))
		default:
			fmt.Println(what, err)
		}
	}
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	_, err := os.ReadDir(closed)
	answer("list", err)
	_, err = os.ReadFile(in(closed, "secret"))
	answer("read", err)
	_, err = os.ReadFile("/proc/self/root" + in(closed, "secret"))
	answer("read-around", err)
	_, err = os.ReadFile(in(work, "link"))
	answer("read-by-link", err)
	answer("write", os.WriteFile(in(closed, "secret"), []byte("x"), 0o600))
	answer("truncate", os.Truncate(in(closed, "secret"), 0))
	answer("create", os.WriteFile(in(closed, "new"), nil, 0o600))
	answer("mkdir", os.Mkdir(in(closed, "dir"), 0o700))
	answer("remove", os.Remove(in(closed, "secret")))
	answer("symlink", os.Symlink("/", in(closed, "symlink")))
	for _, err := range []error{
		os.Mkdir(in(work, "a"), 0o700), os.Mkdir(in(work, "b"), 0o700), os.WriteFile(in(work, "a/f"), []byte("x"), 0o600),
	} {
		answer("work", err)
	}
	answer("move-in", os.Rename(in(work, "a/f"), in(closed, "f")))
	answer("move-out", os.Rename(in(closed, "secret"), in(work, "secret")))
	answer("link-out", os.Link(in(closed, "secret"), in(work, "secret")))
	answer("move-across", os.Rename(in(work, "a/f"), in(work, "b/f")))
	answer("link-across", os.Link(in(work, "b/f"), in(work, "a/g")))
	answer("truncate-own", os.Truncate(in(work, "b/f"), 0))
	_, err = os.ReadFile("/proc/self/mounts")
	answer("proc", err)
	answer("null", os.WriteFile("/dev/null", []byte("x"), 0o600))
	for _, name := range []string{"/bin/true", "/usr/bin/true"} {
		answer("exec-"+name, exec.Command(name).Run())
	}
}

// closedBed is a directory that is to be closed, beside one that is the work
// directory, both on the way to which other things lie.
func closedBed(t *testing.T) (closed, work string) {
	t.Helper()
	dir := t.TempDir()
	closed, work = filepath.Join(dir, "closed"), filepath.Join(dir, "work")
	for _, err := range []error{
		os.Mkdir(closed, 0o700), os.Mkdir(work, 0o700), os.WriteFile(filepath.Join(closed, "secret"), []byte("s"), 0o600),
		os.Symlink(filepath.Join(closed, "secret"), filepath.Join(work, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return closed, work
}

func closedAnswers(t *testing.T, closed, work string, change func(*order)) map[string]string {
	t.Helper()
	o := ordered(t, Job{
		Program: Executable, Argv: []string{markerClosed, closed, work}, Dir: work, Home: "/h", Path: "/usr/bin:/bin", Closed: []string{closed},
		AddressSpace: -1, FileSize: -1, CPU: -1, OpenFiles: -1, Processes: -1, DieWith: -1,
	})
	change(o)
	answers := map[string]string{}
	for line := range strings.Lines(said(t, o)) {
		what, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		answers[what] = answer
	}
	return answers
}

func needsClosing(t *testing.T) {
	t.Helper()
	if !CanClose() {
		t.Skip("not run: this kernel's Landlock can't close a directory")
	}
	for _, name := range []string{"/bin/true", "/usr/bin/true"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("not run: %v", err)
		}
	}
}

func TestAClosedDirectoryIsOutOfAScannersReachAndNothingElseIs(t *testing.T) {
	needsClosing(t)
	closed, work := closedBed(t)
	answers := closedAnswers(t, closed, work, func(*order) {})
	shut := []string{"list", "read", "read-around", "read-by-link", "write", "truncate", "create", "mkdir", "remove", "symlink"}
	for _, what := range shut {
		if answers[what] != "EACCES" {
			t.Errorf("%s: %q, want EACCES", what, answers[what])
		}
	}
	for _, what := range []string{"move-in", "move-out", "link-out"} {
		if answers[what] != "EACCES" && answers[what] != "EXDEV" {
			t.Errorf("%s: %q", what, answers[what])
		}
	}
	for _, what := range []string{"work", "move-across", "link-across", "truncate-own", "proc", "null", "exec-/bin/true", "exec-/usr/bin/true"} {
		if answers[what] != "ok" {
			t.Errorf("%s: %q", what, answers[what])
		}
	}
	// The parent is as free as it was.
	if b, err := os.ReadFile(filepath.Join(closed, "secret")); string(b) != "s" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	if err := os.WriteFile(filepath.Join(closed, "result"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// As on a kernel whose Landlock is older: the same calls see what the wall
// keeps, and the scanner is started all the same.
func TestWithoutLandlockADirectoryStaysOpen(t *testing.T) {
	needsClosing(t)
	for _, version := range []int{0, 1} {
		closed, work := closedBed(t)
		answers := closedAnswers(t, closed, work, func(o *order) { o.wanted = domainFor(version, o.closed) })
		for _, what := range []string{"list", "read", "read-around", "read-by-link", "create", "write"} {
			if answers[what] != "ok" {
				t.Errorf("version %d: %s: %q", version, what, answers[what])
			}
		}
	}
}

func TestOlderVersionsAreAskedOnlyForWhatTheyKnow(t *testing.T) {
	needsClosing(t)
	for version := versionRefer; version <= LandlockVersion(); version++ {
		closed, work := closedBed(t)
		answers := closedAnswers(t, closed, work, func(o *order) { o.wanted = domainFor(version, o.closed) })
		if answers["list"] != "EACCES" || answers["create"] != "EACCES" || answers["move-across"] != "ok" {
			t.Errorf("version %d: %v", version, answers)
		}
	}
}

func TestAClosedDirectoryMayHaveTheWorkDirectoryInIt(t *testing.T) {
	needsClosing(t)
	closed, _ := closedBed(t)
	work := filepath.Join(closed, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	answers := closedAnswers(t, closed, work, func(*order) {})
	if answers["list"] != "EACCES" || answers["read"] != "EACCES" || answers["work"] != "ok" || answers["move-across"] != "ok" {
		t.Errorf("%v", answers)
	}
}

func TestNothingIsClosedWhereNothingIsAskedToBe(t *testing.T) {
	if a := domainFor(7, nil); a.Handled_access_fs != 0 {
		t.Errorf("%#x", a.Handled_access_fs)
	}
}

func TestAKeeperIsToldWhatIsClosed(t *testing.T) {
	want := Job{Program: "p", Dir: "/d", Home: "/h", Path: "x", Closed: []string{"/a b", "/c"}, Argv: []string{"s", "/c"}, DieWith: -1}
	got, ok := parseJob(want.Args())
	if !ok || strings.Join(got.Closed, "|") != "/a b|/c" || strings.Join(got.Argv, "|") != "s|/c" {
		t.Errorf("%+v %v", got, ok)
	}
	args := want.Args()
	args[fixed-1] = "4"
	if _, ok := parseJob(args); ok {
		t.Error("a job without a program was read")
	}
}

func TestAScannerIsTheFirstToBeKilledForWantOfMemoryAndItsParentIsNot(t *testing.T) {
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	for _, dumpable := range []int{1, 0} {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(dumpable), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		got := said(t, ordered(t, shell(t, "cat /proc/self/oom_score_adj")))
		now, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0)
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got) != MostExpendable {
			t.Errorf("%q", got)
		}
		if int(now) != dumpable || errno != 0 {
			t.Errorf("the parent's state is %d, and was %d", now, dumpable)
		}
	}
	if after, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || string(after) != string(before) {
		t.Errorf("the parent's own is %q, and was %q (%v)", after, before, err)
	}
}
