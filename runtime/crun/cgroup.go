package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// group is the cgroup of one run. It has the run's limits, and the container's
// own cgroup stands below it: that one is gone as soon as the container is,
// and what it ran into is still told here (on v2).
type group struct {
	layout layout
	// parent is the cgroup of all runs, below each hierarchy's mount.
	parent string
	// run is this one's name in it.
	run string
}

// container is the name of the container's cgroup in the run's.
const container = "c"

// path is the container's cgroup from the hierarchy's root, as a runtime is
// told it.
func (g group) path() string { return path.Join("/", g.parent, g.run, container) }

// dir is the run's cgroup in the hierarchy mounted at mount.
func (g group) dir(mount string) string { return path.Join(mount, g.parent, g.run) }

// minCPUMilli is the least CPU that the kernel bounds anybody to, on v1 and v2: a
// quota of less than 1 ms is refused, whatever the period.
const minCPUMilli = 1000 * 1000 / cpuPeriod

// limits are the numbers of one run.
type limits struct {
	memory    int64 // bytes
	cpu, pids int64 // microseconds of each cpuPeriod; threads
}

func limitsOf(c Container) limits {
	return limits{memory: c.Limits.MemoryMB << 20, cpu: c.CPUMilli * (cpuPeriod / 1000), pids: c.pids()}
}

// make makes the run's cgroup and sets its limits. A name that exists is an
// error: two runs never share one.
func (g group) make(l limits) error {
	for tries := 3; ; tries-- {
		err := g.makeOnce(l)
		// Another worker that ends may have removed the cgroup of all runs.
		if tries == 0 || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := g.rmdir(); err != nil {
			return err
		}
	}
}

func (g group) makeOnce(l limits) error {
	if g.layout.isV1() {
		if err := g.makeV1(g.run, l); err != nil {
			return err
		}
		return g.makeFreezer()
	}
	if err := g.delegate(); err != nil {
		return err
	}
	dir := g.dir(g.layout.v2)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{
		{"memory.max", strconv.FormatInt(l.memory, 10)},
		{"memory.swap.max", "0"},
		{"cpu.max", fmt.Sprintf("%d %d", l.cpu, cpuPeriod)},
		{"pids.max", strconv.FormatInt(l.pids, 10)},
	} {
		err := set(path.Join(dir, f.name), f.value)
		if errors.Is(err, fs.ErrNotExist) && f.name == "memory.swap.max" {
			continue // a kernel without swap
		}
		if err != nil {
			return err
		}
	}
	return enable(dir)
}

// delegate hands the controllers down from the root to the cgroup of all runs.
func (g group) delegate() error {
	dir := g.layout.v2
	for part := range strings.SplitSeq(g.parent, "/") {
		if err := enable(dir); err != nil {
			return err
		}
		dir = path.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return enable(dir)
}

// enable lets the children of a v2 cgroup have our controllers.
func enable(dir string) error {
	file := path.Join(dir, "cgroup.subtree_control")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if lacking(strings.Fields(string(b))) == "" {
		return nil
	}
	return set(file, "+"+strings.Join(controllers, " +"))
}

func (g group) makeV1(name string, l limits) error {
	files := map[string][]struct{ name, value string }{
		"memory": {
			{"memory.limit_in_bytes", strconv.FormatInt(l.memory, 10)},
			{"memory.memsw.limit_in_bytes", strconv.FormatInt(l.memory, 10)},
		},
		"cpu": {
			{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod)},
			{"cpu.cfs_quota_us", strconv.FormatInt(l.cpu, 10)},
		},
		"pids": {{"pids.max", strconv.FormatInt(l.pids, 10)}},
	}
	var made []string
	for _, c := range controllers {
		dir := path.Join(g.layout.v1[c], g.parent, name)
		if err := os.MkdirAll(path.Dir(dir), 0o755); err != nil {
			return err
		}
		// Two controllers may be mounted together.
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) && slices.Contains(made, dir) {
			err = nil
		}
		if err != nil {
			return err
		}
		made = append(made, dir)
		for _, f := range files[c] {
			err := set(path.Join(dir, f.name), f.value)
			if errors.Is(err, fs.ErrNotExist) && strings.Contains(f.name, "memsw") {
				continue // a kernel without swap accounting
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFreezer makes the run's v1 cgroup in the hierarchy without limits.
func (g group) makeFreezer() error {
	if g.layout.freezer == "" {
		return nil
	}
	return os.MkdirAll(g.dir(g.layout.freezer), 0o755)
}

// adopt puts the program, as soon as it runs, into the run's own cgroup on v1,
// so that the run's end and a sweep find it and all that it has started, whether
// there is a container yet or not.
//
// It also makes the start shorter. The kernel lets the first move of a process
// between cgroups wait for an RCU grace period, some 10 ms, and those that follow
// at once pass. Here the program loads meanwhile, and its own moves follow.
func (g group) adopt(pid int) {
	if g.layout.freezer == "" {
		return
	}
	// A program that has ended already has nothing to be found.
	_ = set(path.Join(g.dir(g.layout.freezer), "cgroup.procs"), strconv.Itoa(pid))
}

// join makes the container's own v1 cgroup with the same limits, for a runtime
// that joins what is there and leaves it when it ends.
func (g group) join(l limits) error { return g.makeV1(path.Join(g.run, container), l) }

// set writes a cgroup's file.
func set(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// oomKilled says whether the kernel killed anything in the run for want of
// memory. Where that can't be read it is not known, which is not a no.
func (g group) oomKilled() (killed, known bool) {
	dir := g.dir(g.layout.memory())
	if g.layout.isV1() {
		return readKills(path.Join(dir, container, "memory.oom_control"))
	}
	return readKills(path.Join(dir, "memory.events"))
}

// readKills reads the count of kills; "oom" alone counts times at the limit.
func readKills(file string) (killed, known bool) { return readCount(file, "oom_kill ") }

// fullOfProcesses says whether the limit of processes kept something from being
// made, as far as that is told: v2 does for the run, and v1, or v2 before Linux
// 6.11, only for the container, which may be gone.
func (g group) fullOfProcesses() bool {
	mount := g.layout.v2
	if g.layout.isV1() {
		mount = g.layout.v1["pids"]
	}
	for _, dir := range []string{g.dir(mount), path.Join(g.dir(mount), container)} {
		if full, _ := readCount(path.Join(dir, "pids.events"), "max "); full {
			return true
		}
	}
	return false
}

// readCount says whether a count in a file of events is more than nothing.
func readCount(file, name string) (some, known bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(b)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(count), 10, 64)
			return n > 0, err == nil
		}
	}
	return false, false
}

// empty is how long killed processes may take to be gone, and how long their
// cgroups may be busy.
const empty = 10 * time.Second

// kill kills everything in the run's cgroup, in whichever hierarchy it is.
func (g group) kill() { g.killIn("") }

// killContainer kills everything in the container's own cgroup.
func (g group) killContainer() { g.killIn(container) }

func (g group) killIn(part string) {
	if !g.layout.isV1() && set(path.Join(g.dir(g.layout.v2), part, "cgroup.kill"), "1") == nil {
		return
	}
	for _, mount := range g.layout.all {
		for _, pid := range processes(path.Join(g.dir(mount), part)) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// processes are the pids in a cgroup and below it.
func processes(dir string) []int {
	var pids []int
	_ = walk(dir, func(dir string) error {
		b, err := os.ReadFile(path.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // it went away
		}
		for field := range strings.FieldsSeq(string(b)) {
			// What is in another pid namespace is shown as 0.
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// walk visits a cgroup and those below it, children first.
func walk(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := walk(path.Join(dir, e.Name()), visit); err != nil {
				return err
			}
		}
	}
	return visit(dir)
}

// remove ends what is left in the run's cgroup, removes it from every
// hierarchy and sees it gone. A cgroup that stays is an error.
func (g group) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, empty)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := g.rmdir()
		if err == nil {
			return nil
		}
		g.kill()
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the cgroup %s: %w", path.Join("/", g.parent, g.run), err)
		case <-tick.C:
		}
	}
}

// removeEmpty removes the run's cgroups without a look at what is in them, and
// says whether there were any and all are gone. The kernel keeps those in which
// something runs, so that nothing does in a run whose cgroups could go.
func (g group) removeEmpty() bool {
	if g.run == "" {
		return false
	}
	found := false
	for _, mount := range g.layout.all {
		dir := g.dir(mount)
		for _, dir := range []string{path.Join(dir, container), dir} {
			err := unix.Rmdir(dir)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return false
			}
			found = found || err == nil
		}
	}
	return found
}

func (g group) rmdir() error {
	if g.run == "" {
		return errors.New("a cgroup without a name")
	}
	var faults []error
	for _, mount := range g.layout.all {
		faults = append(faults, walk(g.dir(mount), func(dir string) error {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				return nil
			}
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}))
	}
	return errors.Join(faults...)
}

// removeParent removes the cgroup of all runs where nobody has a run in it.
func (l layout) removeParent(parent string) {
	for dir := parent; dir != "."; dir = path.Dir(dir) {
		for _, mount := range l.all {
			_ = unix.Rmdir(path.Join(mount, dir))
		}
	}
}

// tryPrefix begins the names of cgroups that are only tried, and no run's.
const tryPrefix = "batlehub-try-"

// tried is how old a cgroup that is only tried may get. It takes milliseconds; an
// older one is that of a worker that was killed meanwhile.
const tried = 5 * time.Second

// removeTried removes what killed workers have left of trying.
func (l layout) removeTried(parent string) {
	for _, mount := range l.all {
		entries, err := os.ReadDir(path.Join(mount, parent))
		if err != nil {
			continue // nobody has runs here
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.IsDir() && strings.HasPrefix(e.Name(), tryPrefix) && time.Since(info.ModTime()) > tried {
				_ = unix.Rmdir(path.Join(mount, parent, e.Name())) // or it is not empty, and no one's of ours
			}
		}
	}
}

// tryChild makes a cgroup with limits and removes it, to see that the
// controllers are handed down to this process and that it may use them. It
// also says whether swap can be limited.
func (l layout) tryChild(ctx context.Context, parent, name string) (swap bool, err error) {
	g := group{layout: l, parent: parent, run: name}
	defer func() { err = errors.Join(err, g.remove(ctx)) }()
	least := Container{Limits: wire.Limits{MemoryMB: 64, Processes: 16}, CPUMilli: 1000}
	if err := g.make(limitsOf(least)); err != nil {
		return false, err
	}
	file := "memory.swap.max"
	if l.isV1() {
		file = "memory.memsw.limit_in_bytes"
	}
	_, err = os.Lstat(path.Join(g.dir(l.memory()), file))
	return err == nil, nil
}
