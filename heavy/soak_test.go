package heavy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

var newLab = sync.OnceValues(func() (*lab.Lab, error) {
	// Not a test's own directory: it outlives the first test that asks for it.
	dir, err := os.MkdirTemp("", "heavy-lab-")
	if err != nil {
		return nil, err
	}
	labDir = dir
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	return lab.New(context.Background(), dir)
})

var labDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if labDir != "" {
		_ = os.RemoveAll(labDir)
	}
	os.Exit(code)
}

func theLab(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runtimes returns the runtimes that this host has.
func runtimes(t *testing.T, l *lab.Lab) map[string]sandbox.Runtime {
	t.Helper()
	all := map[string]sandbox.Runtime{}
	noneRuntime, err := l.None()
	if err != nil {
		t.Fatal(err)
	}
	all["none"] = noneRuntime
	if _, err := exec.LookPath("bwrap"); err == nil {
		bwrapRuntime, err := l.Bwrap()
		if err != nil {
			t.Fatal(err)
		}
		all["bwrap"] = bwrapRuntime
	}
	t.Cleanup(func() {
		for name, rt := range all {
			if err := rt.Close(); err != nil {
				t.Errorf("closing %s: %v", name, err)
			}
		}
	})
	return all
}

// lister is the argv that lists the artifact: the work directory is the
// scanner's own everywhere, and without walls the inmate is not on PATH.
func lister(l *lab.Lab, runtime string) []string {
	if runtime == "none" {
		return []string{l.Inmate, "list", "artifact"}
	}
	return []string{"inmate", "list", "artifact"}
}

// left counts what a run could leave behind.
type left struct{ files, goroutines, processes, directories int }

func (l left) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d processes, %d directories", l.files, l.goroutines, l.processes, l.directories)
}

func count(t *testing.T, l *lab.Lab) left {
	t.Helper()
	return left{
		files:       entries(t, "/proc/self/fd"),
		goroutines:  runtime.NumGoroutine(),
		processes:   processesOf(l),
		directories: entries(t, l.RunDir),
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// processesOf counts the processes that run one of the lab's programs, or a
// bwrap over its room.
func processesOf(l *lab.Lab) int {
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || filepath.Base(filepath.Dir(file)) == strconv.Itoa(os.Getpid()) {
			continue
		}
		if s := string(b); strings.Contains(s, filepath.Dir(l.Rooms)) || strings.HasPrefix(s, "inmate\x00") || strings.HasPrefix(s, "batlehub-sandbox\x00") {
			n++
		}
	}
	return n
}

// settled waits, bounded, until no more is left than before.
func settled(t *testing.T, l *lab.Lab, before left) left {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		now := count(t, l)
		if now.files <= before.files && now.goroutines <= before.goroutines && now.processes <= before.processes && now.directories <= before.directories ||
			time.Now().After(deadline) {
			return now
		}
		runtime.Gosched()
	}
}

// The number of runs is HEAVY_RUNS, 1000 unless told.
func TestRunsInARowLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short")
	}
	l := theLab(t)
	total := 1000
	if s := os.Getenv("HEAVY_RUNS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("HEAVY_RUNS is %q, want a number", s)
		}
		total = n
	}
	archive := smallArchive(t)
	for name, rt := range runtimes(t, l) {
		t.Run(name, func(t *testing.T) {
			argv := lister(l, name)
			runOnce(t, rt, "warm", archive, argv)
			before := count(t, l)
			runMany(t, rt, total, archive, argv)
			after := settled(t, l, before)
			t.Logf("%d runs of %s, two at a time: before %v; after %v", total, name, before, after)
			if after.files > before.files || after.goroutines > before.goroutines || after.processes > before.processes || after.directories > before.directories {
				t.Errorf("something was left behind: before %v; after %v", before, after)
			}
		})
	}
}

// runMany runs total runs, two at a time.
func runMany(t *testing.T, rt sandbox.Runtime, total int, archive string, argv []string) {
	t.Helper()
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for i := range jobs {
				runOnce(t, rt, fmt.Sprintf("soak%d", i), archive, argv)
			}
		})
	}
	for i := range total {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
}

func runOnce(t *testing.T, rt sandbox.Runtime, job, archive string, argv []string) {
	t.Helper()
	spec, err := lab.Spec(job, archive, nil, argv...)
	if err != nil {
		t.Error(err)
		return
	}
	out, err := rt.Run(t.Context(), spec)
	switch {
	case err != nil:
		t.Error(err)
	case out.Status == nil || *out.Status != 0:
		t.Errorf("%s: ending %s, stderr %q", job, out.Result.Ending, out.StderrTail)
	case !strings.Contains(string(out.Stdout), `file "package/index.js"`):
		t.Errorf("%s: listing %q", job, out.Stdout)
	}
}
