package crun

import (
	"os"
	"path"
	"strconv"
	"strings"
)

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
