package identity

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// workerVariable makes this test's program a worker in the directory that it
// names: it says its id, sweeps what it answers for, and lives until its input
// ends.
const workerVariable = "BATLEHUB_TEST_WORKERS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerVariable); dir != "" {
		os.Exit(live(dir))
	}
	os.Exit(m.Run())
}

func live(dir string) int {
	w, err := Place{Dir: dir}.Take()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var swept []string
	_ = w.Settle(func(id string) error { swept = append(swept, id); return nil })
	fmt.Println(w.ID(), strings.Join(swept, " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
	w.Close(false)
	return 0
}

func take(t *testing.T, p Place) *Worker {
	t.Helper()
	w, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// killed is what the end of a process leaves of a worker.
func killed(w *Worker) {
	for _, h := range w.held {
		_ = h.file.Close()
	}
}

func settled(t *testing.T, w *Worker) []string {
	t.Helper()
	var all []string
	if err := w.Settle(func(id string) error { all = append(all, id); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func place(t *testing.T) Place {
	t.Helper()
	return Place{Dir: filepath.Join(t.TempDir(), "workers"), Reach: "oci podman"}
}

func files(t *testing.T, p Place) []string {
	t.Helper()
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestAnIDStandsInEveryLabel(t *testing.T) {
	for _, id := range []string{New().ID(), take(t, place(t)).ID()} {
		if err := (wire.Label{Worker: id, Job: "job", Scanner: "x", Attempt: 1}).Validate(); err != nil || len(id) > 32 || !validID(id) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestAKilledWorkersIDIsTheNextOnesAndALivingOnesIsNot(t *testing.T) {
	p := place(t)
	first, second := take(t, p), take(t, p)
	if first.ID() == second.ID() {
		t.Fatalf("two living workers have the id %s", first.ID())
	}
	killed(first)
	next := take(t, p)
	if next.ID() != first.ID() {
		t.Errorf("the next id is %s, want the killed worker's %s", next.ID(), first.ID())
	}
	if got := settled(t, next); !slices.Equal(got, []string{first.ID()}) {
		t.Errorf("swept for %q", got)
	}
	next.Close(false)
	second.Close(false)
	if left := files(t, p); len(left) != 0 {
		t.Errorf("workers that ended well left %q", left)
	}
	if again := take(t, p); again.ID() == first.ID() || again.ID() == second.ID() {
		t.Errorf("%s was given up, and came again", again.ID())
	}
}

func TestAStartSweepsForAllKilledWorkersAndForgetsThem(t *testing.T) {
	p := place(t)
	a, b, c := take(t, p), take(t, p), take(t, p)
	dead := []string{a.ID(), b.ID(), c.ID()}
	for _, w := range []*Worker{a, b, c} {
		killed(w)
	}
	w := take(t, p)
	got := settled(t, w)
	slices.Sort(dead)
	if slices.Sort(got); !slices.Equal(got, dead) {
		t.Errorf("swept for %q, want %q", got, dead)
	}
	if left := files(t, p); len(left) != 1 || !strings.HasSuffix(left[0], w.ID()) {
		t.Errorf("left %q, want the living worker's alone", left)
	}
}

// What could not be swept, or may have been left, is the next start's.
func TestAnIDThatOwesASweepStays(t *testing.T) {
	p := place(t)
	a, b := take(t, p), take(t, p)
	killed(a)
	killed(b)
	away := errors.New("the engine is away")
	for range 2 {
		w, calls := take(t, p), 0
		if err := w.Settle(func(string) error { calls++; return away }); !errors.Is(err, away) || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		w.Close(false)
		if left := files(t, p); len(left) != 2 {
			t.Fatalf("left %q, want both", left)
		}
	}
	w, calls := take(t, p), 0
	if err := w.Settle(func(string) error {
		if calls++; calls == 2 {
			return away
		}
		return nil
	}); !errors.Is(err, away) {
		t.Error(err)
	}
	w.Close(false)
	if left := files(t, p); len(left) != 1 || strings.HasSuffix(left[0], w.ID()) {
		t.Errorf("left %q, want the one that was not swept", left)
	}
	unclean := take(t, p)
	settled(t, unclean)
	unclean.Close(true)
	if again := take(t, p); again.ID() != unclean.ID() {
		t.Errorf("%s, want %s", again.ID(), unclean.ID())
	}
}

// A new worker whose sweep fails has left nothing.
func TestANewIDOwesNothing(t *testing.T) {
	p := place(t)
	w := take(t, p)
	if err := w.Settle(func(string) error { return errors.ErrUnsupported }); err == nil {
		t.Error("no error")
	}
	w.Close(false)
	if left := files(t, p); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	n := New()
	if got := settled(t, n); !slices.Equal(got, []string{n.ID()}) {
		t.Errorf("swept for %q", got)
	}
	n.Close(true)
}

func TestManyStartsAtOnceShareNoID(t *testing.T) {
	p := place(t)
	for range 20 {
		var dead []*Worker
		for range 3 {
			dead = append(dead, take(t, p))
		}
		for _, w := range dead {
			killed(w)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		owners := map[string]int{}
		var living []*Worker
		for range 24 {
			all.Go(func() {
				w, err := p.Take()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				living = append(living, w)
				for _, h := range w.held {
					owners[h.id]++
				}
			})
		}
		all.Wait()
		for id, n := range owners {
			if n != 1 {
				t.Errorf("%d workers have the id %s", n, id)
			}
		}
		for _, w := range dead {
			if owners[w.ID()] != 1 {
				t.Errorf("nobody answers for %s", w.ID())
			}
		}
		for _, w := range living {
			settled(t, w)
			w.Close(false)
		}
		if left := files(t, p); len(left) != 0 {
			t.Fatalf("left %q", left)
		}
	}
}

// process is a worker in a process of its own.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	id    string
	swept []string
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+dir)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 {
		t.Fatalf("a worker said %q: %v", line, err)
	}
	p.id, p.swept = words[0], words[1:]
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(unix.SIGKILL)
	_ = p.cmd.Wait()
}

func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.input.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheIDsOfKilledProcessesAreTakenAgain(t *testing.T) {
	p := Place{Dir: filepath.Join(t.TempDir(), "workers")}
	first, second, living := start(t, p.Dir), start(t, p.Dir), start(t, p.Dir)
	first.kill()
	again := start(t, p.Dir)
	if again.id != first.id || !slices.Equal(again.swept, []string{first.id}) {
		t.Errorf("%s swept for %q, want %s", again.id, again.swept, first.id)
	}
	again.kill()
	second.kill()
	// The first of two starts answers for both.
	one, two := start(t, p.Dir), start(t, p.Dir)
	dead := []string{first.id, second.id}
	slices.Sort(dead)
	if slices.Sort(one.swept); !slices.Equal(one.swept, dead) || !slices.Contains(dead, one.id) {
		t.Errorf("%s swept for %q, want %q", one.id, one.swept, dead)
	}
	if slices.Contains(append(dead, one.id, living.id), two.id) || !slices.Equal(two.swept, []string{two.id}) {
		t.Errorf("%s swept for %q", two.id, two.swept)
	}
	one.end(t)
	two.end(t)
	if left := files(t, p); len(left) != 1 || !strings.HasSuffix(left[0], living.id) {
		t.Errorf("left %q, want that of %s", left, living.id)
	}
	living.end(t)
}

// Ten at a time start beside killed ones, in processes of their own.
func TestManyProcessesAtOnceShareNoID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workers")
	for range 3 {
		start(t, dir).kill()
		var mu sync.Mutex
		var all sync.WaitGroup
		owners, swept := map[string]int{}, map[string]int{}
		var living []*process
		for range 10 {
			all.Go(func() {
				p := start(t, dir)
				mu.Lock()
				defer mu.Unlock()
				living = append(living, p)
				owners[p.id]++
				for _, id := range p.swept {
					swept[id]++
				}
			})
		}
		all.Wait()
		for id, n := range owners {
			if n != 1 || swept[id] != 1 {
				t.Errorf("%d living workers have the id %s, and %d swept for it", n, id, swept[id])
			}
		}
		for _, p := range living {
			p.kill()
		}
	}
}

func TestWhatIsNoWorkersFileOfThisPlaceIsLeftAlone(t *testing.T) {
	p := place(t)
	mine := take(t, p)
	tag, err := p.tag()
	if err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	name := func(tag, id string) string { return filepath.Join(p.Dir, tag+"."+id) }
	put := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	if err := errors.Join(
		os.Symlink(victim, name(tag, newID())),
		os.Symlink("/nonexistent", name(tag, newID())),
		os.Mkdir(name(tag, newID()), 0o700),
		unix.Mkfifo(name(tag, newID()), 0o600),
		put(name("otherhost", newID())),
		put(name(tag, "sandboxctl-short")),
		put(name(tag, "sandboxctl-ABCDEFGHIJKL")),
		put(name(tag, "sandboxctl-abcdefghijk/"[:22])),
		put(name(tag, "")),
		put(filepath.Join(p.Dir, "README")),
	); err != nil {
		t.Fatal(err)
	}
	before := files(t, p)
	w := take(t, p)
	if got := settled(t, w); len(got) != 1 || got[0] == mine.ID() {
		t.Errorf("swept for %q", got)
	}
	w.Close(false)
	if after := files(t, p); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
	// A file with something in it, or cut off, is a file.
	torn := newID()
	if err := os.WriteFile(name(tag, torn), []byte("\x00torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := take(t, p); w.ID() != torn {
		t.Errorf("%s, want %s", w.ID(), torn)
	}
}

// Each of these says nothing about whether a worker lives elsewhere.
func TestAnotherHostBootDirectoryOrReachHasIDsOfItsOwn(t *testing.T) {
	dir := unix.Statx_t{Ino: 1, Btime: unix.StatxTimestamp{Sec: 1, Nsec: 1}}
	other, younger := dir, dir
	other.Ino, younger.Btime.Nsec = 2, 2
	tags := []string{
		tagOf("boot", "host", dir, "reach"), tagOf("boot2", "host", dir, "reach"), tagOf("boot", "host2", dir, "reach"),
		tagOf("boot", "host", other, "reach"), tagOf("boot", "host", younger, "reach"), tagOf("boot", "host", dir, "reach2"),
	}
	if tags[0] != tagOf("boot", "host", dir, "reach") {
		t.Error("a tag changes by itself")
	}
	p := place(t)
	take(t, p).Close(false)
	seen := map[string]bool{}
	for _, tag := range tags {
		w, err := p.take(tag)
		if err != nil {
			t.Fatal(err)
		}
		killed(w)
		if seen[w.ID()] {
			t.Errorf("%s was taken by another", w.ID())
		}
		seen[w.ID()] = true
	}
}

func TestACopiedDirectoryGivesNoIDTwice(t *testing.T) {
	p := place(t)
	living := take(t, p)
	copied := Place{Dir: filepath.Join(t.TempDir(), "copy"), Reach: p.Reach}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", p.Dir, copied.Dir).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if w := take(t, copied); len(files(t, copied)) != 2 || w.ID() == living.ID() || !slices.Equal(settled(t, w), []string{w.ID()}) {
		t.Errorf("%s of a copy that has %s", w.ID(), living.ID())
	}
	// One that was moved is the same.
	killed(living)
	moved := Place{Dir: p.Dir + "2", Reach: p.Reach}
	if err := os.Rename(p.Dir, moved.Dir); err != nil {
		t.Fatal(err)
	}
	if w := take(t, moved); w.ID() != living.ID() {
		t.Errorf("%s, want %s", w.ID(), living.ID())
	}
}

// A file that is removed between its opening and its lock was given up.
func TestAFileThatIsGoneIsNoID(t *testing.T) {
	p := place(t)
	w := take(t, p)
	f, err := os.OpenFile(w.held[0].path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flock(f) == nil || !isWorkers(f) {
		t.Error("a living worker's file was locked")
	}
	w.Close(false)
	if err := flock(f); err != nil || isWorkers(f) {
		t.Errorf("a file that is gone: lock %v, and it counts as a worker's", err)
	}
}

func TestAPlaceThatIsNotThisUsersAloneIsRefused(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	if err := errors.Join(
		os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777), //nolint:gosec // what is refused
		os.Mkdir(at("real"), 0o700), os.Symlink("real", at("link")),
		os.WriteFile(at("file"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{"open": "its mode is 0777", "link": "it is no directory", "file": "it is no directory", "missing/workers": "no such file"}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(at("foreign"), 0o700), os.Chown(at("foreign"), 12345, -1)); err != nil {
			t.Fatal(err)
		}
		cases["foreign"] = "it belongs to uid 12345"
	}
	for name, want := range cases {
		if w, err := (Place{Dir: at(name)}).Take(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want %q", name, w, err, want)
		}
	}
}

// small mounts a file system at a new directory, and says with what options.
func small(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: only root can mount a file system")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skip("not run: no file system can be mounted here: ", string(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

func TestAFileSystemThatTakesNothingIsAnError(t *testing.T) {
	full := small(t, "nr_inodes=2")
	p := Place{Dir: filepath.Join(full, "workers")}
	if w, err := p.Take(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("full: %v, %v", w, err)
	}
	readOnly := small(t, "mode=0755")
	kept := take(t, Place{Dir: filepath.Join(readOnly, "workers")})
	killed(kept)
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,ro", readOnly).CombinedOutput(); err != nil {
		t.Skip("not run: no file system can be mounted again here: ", string(out))
	}
	for _, name := range []string{"workers", "new"} {
		if w, err := (Place{Dir: filepath.Join(readOnly, name)}).Take(); err == nil || !strings.Contains(err.Error(), "read-only file system") {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}
