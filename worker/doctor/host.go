package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// seccomp looks for filters that can answer with an error number.
func (h Host) seccomp() Check {
	const name = "seccomp"
	b, err := os.ReadFile(filepath.Join(h.Proc, "sys/kernel/seccomp/actions_avail"))
	if err != nil || !strings.Contains(string(b), "errno") {
		return Check{Name: name, Outcome: Fail, Detail: "this kernel has no seccomp filters, and so no scanner would be started", Fixes: []string{"run a kernel with CONFIG_SECCOMP_FILTER"}}
	}
	return Check{Name: name, Outcome: Pass, Detail: "this kernel has seccomp filters"}
}

func (h Host) identity() Check {
	if h.EUID == 0 {
		return Check{
			Name: "identity", Outcome: Caution,
			Detail: fmt.Sprintf("this is root: sandboxes are started as uid %d, and the worker itself has more power than it needs", h.Bwrap.UID),
			Fixes:  []string{"run the worker as a user of its own"},
		}
	}
	return Check{Name: "identity", Outcome: Pass, Detail: fmt.Sprintf("uid %d", h.EUID)}
}

// runDir looks at the place in which every run gets its directory.
func (h Host) runDir() Check {
	const name = "run directory"
	dir := h.Sandbox.RunDir
	if dir == "" {
		dir = os.TempDir()
	}
	fix := []string{"set [worker.sandbox] run_dir to a directory with room"}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("%s can't be written: %v", dir, err), Fixes: []string{"set [worker.sandbox] run_dir to a directory that this user can write"}}
	}
	if h.EUID == 0 {
		if blocked := unsearchable(dir); blocked != "" {
			return Check{
				Name: name, Outcome: Fail, Detail: fmt.Sprintf("uid %d, which sandboxes run as, can't pass through %s", h.Bwrap.UID, blocked),
				Fixes: []string{"chmod o+x " + blocked, "or set [worker.sandbox] run_dir to a directory that it can reach"},
			}
		}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Check{Name: name, Outcome: Caution, Detail: fmt.Sprintf("the space in %s is not known: %v", dir, err)}
	}
	free, need := int64(s.Bavail)*s.Bsize>>20, h.Sandbox.MaxExtractedMB
	note := ""
	if s.Flags&unix.ST_NOEXEC != 0 {
		note = "; it is mounted noexec, so no scanner can start what it wrote, which is as well"
	}
	if s.Flags&unix.ST_RDONLY != 0 {
		return Check{Name: name, Outcome: Fail, Detail: dir + " is on a read-only file system", Fixes: fix}
	}
	if free < need {
		return Check{Name: name, Outcome: Caution, Detail: fmt.Sprintf("%s has %d MiB free, and one artifact may unpack to %d MiB%s", dir, free, need, note), Fixes: append(fix, "or lower [worker.sandbox] max_extracted_mb")}
	}
	return Check{Name: name, Outcome: Pass, Detail: fmt.Sprintf("%s, %d MiB free%s", dir, free, note)}
}

// unsearchable is the first directory on the way to dir that others can't pass.
func unsearchable(dir string) string {
	for _, parent := range parents(dir) {
		info, err := os.Stat(parent)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			return parent
		}
	}
	return ""
}

func parents(dir string) []string {
	var all []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		all = append([]string{d}, all...)
		if d == filepath.Dir(d) {
			return all
		}
	}
}

// limits looks at the limits that every child inherits.
func (h Host) limits() Check {
	const name = "limits"
	var low []string
	for _, l := range []struct {
		name string
		kind int
		want uint64
	}{
		{"open files", unix.RLIMIT_NOFILE, 1024},
		{"processes", unix.RLIMIT_NPROC, 256},
		{"file size", unix.RLIMIT_FSIZE, uint64(h.Sandbox.MaxExtractedMB) << 20},
		{"address space", unix.RLIMIT_AS, uint64(h.Sandbox.MemoryLimitMB) << 20},
	} {
		var r unix.Rlimit
		if unix.Getrlimit(l.kind, &r) == nil && r.Max < l.want {
			low = append(low, fmt.Sprintf("%s %d, want %d", l.name, r.Max, l.want))
		}
	}
	if len(low) > 0 {
		return Check{Name: name, Outcome: Caution, Detail: "hard limits are lower than the configuration's: " + strings.Join(low, "; "), Fixes: []string{"raise them for the worker (ulimit -H, LimitNOFILE= and so on in its unit)"}}
	}
	return Check{Name: name, Outcome: Pass, Detail: "no inherited limit is below the configuration's"}
}

func (h Host) cgroups() Check {
	layout := "no cgroups are mounted"
	switch {
	case exists(filepath.Join(h.Sys, "fs/cgroup/cgroup.controllers")):
		layout = "cgroup v2"
	case exists(filepath.Join(h.Sys, "fs/cgroup/unified/cgroup.controllers")):
		layout = "cgroup v1 with an unused v2 beside it (hybrid)"
	case exists(filepath.Join(h.Sys, "fs/cgroup/memory")):
		layout = "cgroup v1"
	}
	return Check{Name: "cgroups", Outcome: Pass, Detail: layout + "; bwrap uses none: memory is bounded for each process, by RLIMIT_AS"}
}

func (h Host) agent() Check {
	if h.Agent == "" {
		return Check{
			Name: "agent", Outcome: Caution, Detail: "no agent stands beside this program, so no room can be built with it",
			Fixes: []string{"put batlehub-sandbox beside sandboxctl", "name it: sandboxctl tree --agent PATH"},
		}
	}
	return Check{Name: "agent", Outcome: Pass, Detail: h.Agent}
}

func (h Host) rooms() []Check {
	if len(h.Rooms) == 0 {
		return []Check{noScanner()}
	}
	var checks []Check
	for _, r := range h.Rooms {
		checks = append(checks, h.room(r))
	}
	return checks
}

func noScanner() Check {
	return Check{
		Name: "rooms", Outcome: Skipped, Detail: "no scanner is configured",
		Fixes: []string{"add a [scanners.<name>] table, or see sandboxctl scan --scanner"},
	}
}

func (h Host) room(r Room) Check {
	name := "room " + r.Scanner
	dir := filepath.Join(h.Sandbox.Bwrap.Rooms, r.Scanner)
	build := fmt.Sprintf("sandboxctl tree %s --file %s --command %s", r.Scanner, filepath.Join("PATH", "TO", filepath.Base(r.Command)), r.Command)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return Check{Name: name, Outcome: Fail, Detail: "there is no tree at " + dir, Fixes: []string{build, "or set [worker.sandbox.bwrap] rooms"}}
	}
	problems, err := h.CheckRoom(dir, r.Command)
	switch {
	case err != nil:
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("%s can't be looked at: %v", dir, err), Fixes: []string{build}}
	case len(problems) > 0:
		c := Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("%s: %s", problems[0].Path, problems[0].Detail)}
		for _, p := range problems {
			if p.Fix != "" {
				c.Fixes = append(c.Fixes, p.Fix)
			}
		}
		if more := len(problems) - 1; more > 0 {
			c.Detail += fmt.Sprintf(" (and %d more)", more)
		}
		return c
	}
	return Check{Name: name, Outcome: Pass, Detail: dir}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// maskedProc lists what is mounted over parts of /proc. The kernel mounts no
// fresh /proc in a user namespace while some are.
func (h Host) maskedProc() []string {
	var masks []string
	for _, m := range h.mounts() {
		if at := m.Mountpoint; strings.HasPrefix(at, "/proc/") && !strings.HasPrefix(at, "/proc/sys/fs/binfmt_misc") {
			masks = append(masks, at)
		}
	}
	return masks
}

// hidepid is the option that hides other users' processes, if /proc has it.
func (h Host) hidepid() string {
	for _, m := range h.mounts() {
		if m.Mountpoint != "/proc" {
			continue
		}
		for option := range strings.SplitSeq(m.Options+","+m.VFSOptions, ",") {
			if strings.HasPrefix(option, "hidepid=") && option != "hidepid=0" && option != "hidepid=off" {
				return option
			}
		}
	}
	return ""
}

// mounts are those that this process sees, none where /proc doesn't tell.
func (h Host) mounts() []*mountinfo.Info {
	f, err := os.Open(filepath.Join(h.Proc, "self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	all, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil
	}
	return all
}
