// Package oom reads how often the kernel killed a process of this sandbox for
// want of memory.
//
// A scanner that dies of it only shows a SIGKILL, and one of its children not
// even that. The kernel counts in the sandbox's own cgroup, which engines show
// read-only at /sys/fs/cgroup.
package oom

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Root is where a container sees its cgroup.
const Root = "/sys/fs/cgroup"

// Counter is the place of the count; the zero value has none.
type Counter struct{ file string }

// Find looks for the count below root. A cgroup counts only if pid, as this pid
// namespace calls it, is in it: any other would tell of somebody else's
// processes.
func Find(root string, pid int) Counter {
	for _, c := range []struct{ dir, file string }{
		{"memory", "memory.oom_control"}, // version 1
		{"", "memory.events"},            // version 2, with all groups below
	} {
		dir := filepath.Join(root, c.dir)
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || !slices.Contains(strings.Fields(string(procs)), strconv.Itoa(pid)) {
			continue
		}
		counter := Counter{filepath.Join(dir, c.file)}
		if _, ok := counter.Kills(); ok {
			return counter
		}
	}
	return Counter{}
}

// Kills is how many processes have been killed since the cgroup was made, and
// false where nothing tells.
func (c Counter) Kills() (int64, bool) {
	if c.file == "" {
		return 0, false
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "oom_kill" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
