package heavy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// crunPlace is where the crun runtime of one test keeps everything.
type crunPlace struct {
	Program, Rooms, State, Cgroup, Archive string
	// Linger is how long the scanner of a worker that is killed takes.
	Linger string
}

// newCrunPlace lays a pinned room and a state directory of its own for a
// program.
func newCrunPlace(t *testing.T, l *lab.Lab, program string) crunPlace {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("not run: there is no %s here", program)
	}
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make user namespaces' maps, mounts and cgroups")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && program == "crun" {
		t.Skip("not run: crun works with cgroup v2 alone")
	}
	if _, err := crun.WritePin(t.Context(), filepath.Join(l.Rooms, lab.Scanner)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(l.Rooms), "crun-"+program)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return crunPlace{
		Program: path, Rooms: l.Rooms, State: filepath.Join(dir, "state"),
		Cgroup: fmt.Sprintf("batlehub-heavy-%d-%s", os.Getpid(), program), Archive: smallArchive(t),
	}
}

func (p crunPlace) runtime(worker string) (*crun.Runtime, error) {
	return crun.New(crun.Config{Program: p.Program, Rooms: p.Rooms, StateDir: p.State, CgroupParent: p.Cgroup, Worker: worker})
}

// left counts, by their kind, what a run or a worker could leave: containers'
// states and bundle directories, mounts below them, cgroups, processes.
func (p crunPlace) left(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{"processes": p.processes()}
	for kind, pattern := range map[string]string{
		"containers": p.State + "/*/run/*", "bundle directories": p.State + "/*/bundles/*",
		"cgroups of v2": "/sys/fs/cgroup/" + p.Cgroup + "/*", "cgroups of v1": "/sys/fs/cgroup/*/" + p.Cgroup + "/*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			// A cgroup's own files are no run's, and nor are the filters that crun keeps.
			if info, err := os.Lstat(path); err == nil && info.IsDir() && filepath.Base(path) != ".cache" {
				n[kind]++
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	n["mounts"] = strings.Count(string(mounts), " "+p.State+"/")
	return n
}

// processes counts those that are in the place's cgroups.
func (p crunPlace) processes() (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "/"+p.Cgroup+"/") {
			n++
		}
	}
	return n
}

// nothingIsLeft waits, bounded, until nothing is.
func (p crunPlace) nothingIsLeft(t *testing.T) {
	t.Helper()
	enough := time.After(5 * time.Second)
	for {
		n := p.left(t)
		if slices.Max(slices.Collect(maps.Values(n))) == 0 {
			return
		}
		select {
		case <-enough:
			t.Errorf("there is left: %v", n)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var crunPrograms = []string{"runc", "crun"}

// The number of runs is HEAVY_RUNS, 1000 unless told.
func TestRunsOverAProgramWithoutEngineLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short")
	}
	l := theLab(t)
	total := int(number(t, "HEAVY_RUNS", 1000))
	for _, program := range crunPrograms {
		t.Run(program, func(t *testing.T) {
			p := newCrunPlace(t, l, program)
			rt, err := p.runtime("heavy")
			if err != nil {
				t.Fatal(err)
			}
			argv := lister(l, crun.Name)
			runOnce(t, rt, "warm", p.Archive, argv)
			before := count(t, l)
			began := time.Now()
			runMany(t, rt, total, p.Archive, argv)
			took := time.Since(began)
			p.nothingIsLeft(t)
			after := settled(t, l, before)
			t.Logf("%d runs over %s, two at a time, in %s: before %v; after %v", total, program, took.Round(time.Second), before, after)
			if after.files > before.files || after.goroutines > before.goroutines {
				t.Errorf("something was left behind: before %v; after %v", before, after)
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// killedEnv has the place of a worker that is to be killed.
const killedEnv = "BATLEHUB_HEAVY_CRUN_WORKER"

// TestWorkerThatIsKilled is such a worker: it makes one run after the other, and
// does not end by itself.
func TestWorkerThatIsKilled(t *testing.T) {
	config := os.Getenv(killedEnv)
	if config == "" {
		t.Skip("not run: it is a part of another test")
	}
	var p crunPlace
	if err := json.Unmarshal([]byte(config), &p); err != nil {
		t.Fatal(err)
	}
	rt, err := p.runtime("killed")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		spec, err := lab.Spec(fmt.Sprintf("killed%d-%d", os.Getpid(), i), p.Archive, nil, "inmate", "linger", p.Linger, "artifact")
		if err != nil {
			t.Fatal(err)
		}
		spec.Label.Worker = "killed"
		if _, err := rt.Run(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
	}
}

// killOne starts a worker and kills it, a while after it has begun its first run.
func (p crunPlace) killOne(t *testing.T, after time.Duration) {
	t.Helper()
	config, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestWorkerThatIsKilled$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), killedEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4096)
	for text := ""; !strings.Contains(text, "ready"); {
		n, err := stdout.Read(said)
		text += string(said[:n])
		if err != nil {
			t.Fatalf("a worker said %q and then %v", text, err)
		}
	}
	// Any moment will do: it is to come at no particular one.
	<-time.After(after)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(stdout)
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("a worker was not killed but %v: %s", err, rest)
	}
}

// The number of workers is HEAVY_KILLS, 100 unless told. They are killed at
// moments that are spread evenly over a run and a half, and swept once.
func TestWorkersThatAreKilledOverAProgramWithoutEngineAreSwept(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short")
	}
	l := theLab(t)
	total := int(number(t, "HEAVY_KILLS", 100))
	for _, program := range crunPrograms {
		t.Run(program, func(t *testing.T) {
			p := newCrunPlace(t, l, program)
			rt, err := p.runtime("heavy")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range total {
				// One ends its runs, and is also killed at their end; what another has
				// started runs on.
				p.Linger = []string{"150ms", "10m"}[i%2]
				p.killOne(t, 400*time.Millisecond*time.Duration(i)/time.Duration(total))
			}
			killed := time.Since(began)
			before := p.left(t)
			for _, kind := range []string{"containers", "bundle directories", "mounts", "processes"} {
				if before[kind] == 0 {
					t.Errorf("the workers have left no %s that could be swept: %v", kind, before)
				}
			}
			if before["cgroups of v1"]+before["cgroups of v2"] == 0 {
				t.Errorf("the workers have left no cgroups that could be swept: %v", before)
			}
			began = time.Now()
			report, err := rt.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "killed"})
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d workers over %s killed in %s, which left %v; a sweep of %s removed %d run directories with all that was theirs",
				total, program, killed.Round(time.Second), before, time.Since(began).Round(time.Millisecond), len(report.Removed))
			if len(report.Removed) != before["bundle directories"] {
				t.Errorf("%d were removed of %d", len(report.Removed), before["bundle directories"])
			}
			p.nothingIsLeft(t)
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
