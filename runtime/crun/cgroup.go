package crun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
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
