package reap

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// IsInit reports whether this process is pid 1, and may so use Namespace.
func IsInit() bool { return os.Getpid() == 1 }

// Namespace kills every other process of the pid namespace that this process
// is pid 1 of. Anywhere else it would end the host's processes, so there it
// does nothing.
func Namespace() {
	if IsInit() {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
}

// Descendants kills every descendant of this process. They are stopped first,
// until no new one appears: what is stopped can't fork out of the way.
func Descendants() {
	self := os.Getpid()
	stopped := make(map[int]bool)
	for range 1000 {
		fresh := false
		for _, pid := range below(self, parents("/proc")) {
			if !stopped[pid] {
				stopped[pid], fresh = true, true
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	// Asked again, because a pid may have been given away since.
	for _, pid := range below(self, parents("/proc")) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// parents maps each process to its parent. What ends while it is read is left
// out.
func parents(proc string) map[int]int {
	dir, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	m := make(map[int]int, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(proc + "/" + name + "/stat")
		if err != nil {
			continue
		}
		if parent, ok := parentOf(string(stat)); ok {
			m[pid] = parent
		}
	}
	return m
}

// parentOf reads the parent's pid out of a stat line. The name before it is
// the process's own choice and may hold spaces and brackets.
func parentOf(stat string) (int, bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

// below lists the descendants of root. The map is no snapshot, so it may
// hold a circle.
func below(root int, parents map[int]int) []int {
	var list []int
	for pid := range parents {
		at := parents[pid]
		for range len(parents) {
			if at == root || at == 0 {
				break
			}
			at = parents[at]
		}
		if at == root && pid != root {
			list = append(list, pid)
		}
	}
	return list
}
