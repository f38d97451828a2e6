package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"ptrace-agent":     ptraceAgent,
		"process-vm-agent": processVMAgent,
		"mem-agent":        memAgent,
		"proc-agent":       procAgent,
		"urls":             findURLs,
		"overwrite-agent":  overwriteAgent,
		"signal-agent":     signalAgent,
		"signal-pid":       signalPID,
		"processes":        processes,
		"descriptors":      descriptors,
		"environment":      environment,
		"secret-in-proc":   secretInProc,
		"rlimits-raise":    raiseLimits,
		"priority":         priority,
		"lower-agent":      lowerAgent,
		"parent-exe":       parentExe,
	})
}

// others are the processes that this one can see, itself left out.
func others() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ptraceAgent seizes its parent, which stops nothing, and lets it go.
func ptraceAgent(r *attempt.Report, _ []string) {
	runtime.LockOSThread()
	pid := uintptr(os.Getppid())
	err := raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, pid, 0, 0)
	got(r, "ptrace seize", err)
	if err == nil {
		_ = raw(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, pid, 0, 0)
		_, _ = unix.Wait4(int(pid), nil, unix.WALL, nil)
		_ = raw(unix.SYS_PTRACE, unix.PTRACE_DETACH, pid, 0, 0)
	}
}

// processVMAgent reads its parent's memory at an address of its own; EFAULT
// says that it was allowed to look.
func processVMAgent(r *attempt.Report, _ []string) {
	buf := make([]byte, 8)
	local := unix.Iovec{Base: &buf[0], Len: 8}
	remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&buf[0])), Len: 8}
	for _, c := range []struct {
		name   string
		number uintptr
	}{{"process_vm_readv", unix.SYS_PROCESS_VM_READV}, {"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV}} {
		if c.number == unix.SYS_PROCESS_VM_WRITEV {
			remote.Base = 1 // never mapped: nothing can be written
		}
		permitted(r, c.name, raw(c.number, uintptr(os.Getppid()), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
	}
}

// memAgent opens the memory of every other process, parent first.
func memAgent(r *attempt.Report, _ []string) {
	for _, pid := range append([]int{os.Getppid()}, others()...) {
		for _, c := range []struct {
			name string
			flag int
		}{{"read", unix.O_RDONLY}, {"write", unix.O_RDWR}} {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), c.flag|unix.O_CLOEXEC, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			if err != nil || len(r.Detail) < 200 {
				got(r, fmt.Sprintf("open the memory of %d for %s", pid, c.name), err)
			}
		}
	}
}

// procAgent reads what /proc tells about the parent.
func procAgent(r *attempt.Report, _ []string) {
	base := fmt.Sprintf("/proc/%d/", os.Getppid())
	for _, name := range []string{"environ", "maps", "auxv", "syscall", "stack"} {
		b, err := os.ReadFile(base + name)
		if err == nil && len(b) == 0 {
			err = unix.ENODATA
		}
		got(r, name, err)
	}
	for _, name := range []string{"cwd", "root", "exe"} {
		_, err := os.Readlink(base + name)
		got(r, name, err)
	}
	_, err := os.ReadDir(base + "fd")
	got(r, "fd", err)
}

// findURLs looks for URLs wherever another process could have left one: argv,
// environment, descriptors, memory, files of the places that are written to.
func findURLs(r *attempt.Report, _ []string) {
	needles := []string{"file:///", "http://", "https://", "X-Amz-Signature"}
	look := func(where string, b []byte) {
		for _, n := range needles {
			if bytes.Contains(b, []byte(n)) {
				got(r, fmt.Sprintf("%q in %s", n, where), nil)
			}
		}
	}
	for _, pid := range others() {
		base := fmt.Sprintf("/proc/%d/", pid)
		for _, name := range []string{"cmdline", "environ"} {
			if b, err := os.ReadFile(base + name); err == nil {
				look(base+name, b)
			}
		}
		entries, err := os.ReadDir(base + "fd")
		if err == nil {
			r.Calls = append(r.Calls, attempt.Call{Name: fmt.Sprintf("%d descriptors of %d", len(entries), pid)})
		}
	}
	// Strangers' memory is left alone where it can be read: no run's URL is in it.
	for i, pid := range ancestors() {
		if b := readableMemory(pid, 8<<20); len(b) > 0 {
			look(fmt.Sprintf("the memory of ancestor %d", i+1), b)
		}
	}
	for _, dir := range []string{".", "/bundle", "/run", "/dev/shm", "/var/tmp"} {
		walk(dir, 6, 2000, func(name string, st *unix.Stat_t) {
			if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > 1<<20 || filepath.Base(name) == "hostile" {
				return
			}
			if b, err := os.ReadFile(name); err == nil {
				look(name, b)
			}
		})
	}
}

// ancestors are the parent and its parent, where there is one to be seen.
func ancestors() []int {
	parent := os.Getppid()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
	_, rest, ok := strings.Cut(string(b), ") ")
	if fields := strings.Fields(rest); err == nil && ok && len(fields) > 1 {
		if pid, err := strconv.Atoi(fields[1]); err == nil && pid > 1 {
			return []int{parent, pid}
		}
	}
	return []int{parent}
}

// readableMemory reads up to limit bytes of a process's stack and heap.
func readableMemory(pid, limit int) []byte {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer mem.Close()
	var all []byte
	for line := range strings.Lines(string(maps)) {
		span, rest, _ := strings.Cut(line, " ")
		from, to, ok := strings.Cut(span, "-")
		start, err1 := strconv.ParseUint(from, 16, 63)
		end, err2 := strconv.ParseUint(to, 16, 63)
		if !ok || err1 != nil || err2 != nil || !strings.HasPrefix(rest, "rw") || len(all) >= limit {
			continue
		}
		buf := make([]byte, min(end-start, 1<<20))
		n, _ := mem.ReadAt(buf, int64(start))
		all = append(all, buf[:n]...)
	}
	return all
}

// overwriteAgent tries to change the program that its parent runs, or to put
// a file beside it; what it puts it takes away again.
func overwriteAgent(r *attempt.Report, _ []string) {
	targets := map[string]bool{"/usr/local/bin/batlehub-sandbox": true, "/usr/bin/batlehub-sandbox": true, "/batlehub-sandbox": true}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", os.Getppid())); err == nil {
		targets[exe] = true
	}
	if exe, err := os.Executable(); err == nil {
		targets[exe] = true
	}
	for name := range targets {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		got(r, "open "+name, err)
		beside := filepath.Join(filepath.Dir(name), ".hostile-"+strconv.Itoa(os.Getpid()))
		fd, err = unix.Open(beside, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err == nil {
			_ = unix.Close(fd)
			_ = unix.Unlink(beside)
		}
		got(r, "create "+beside, err)
	}
	if fd, err := unix.Open(fmt.Sprintf("/proc/%d/exe", os.Getppid()), unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Close(fd)
		got(r, "open the parent's exe", nil)
	}
}

func parentExe(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{"ppid": {strconv.Itoa(os.Getppid())}, "pid": {strconv.Itoa(os.Getpid())}}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", os.Getppid())); err == nil {
		r.Values["parent"] = []string{strings.TrimSpace(string(b))}
	}
}

// signalAgent sends every signal to its parent, when that is pid 1 of its own
// namespace. Anywhere else the parent is the suite itself: there the attempt
// counts as achieved once signal 0 says that the others would arrive.
func signalAgent(r *attempt.Report, _ []string) {
	if os.Getppid() != 1 {
		got(r, fmt.Sprintf("the parent (%d) is no pid 1 and can be signalled", os.Getppid()), unix.Kill(os.Getppid(), 0))
		return
	}
	for signal := 1; signal <= 64; signal++ {
		_ = unix.Kill(1, unix.Signal(signal))
		for _, tid := range threadsOf(1) {
			_ = raw(unix.SYS_TGKILL, 1, uintptr(tid), uintptr(signal))
		}
	}
	// Still being here to say so is not the point; the result coming back is.
	r.Detail = "sent every signal to pid 1"
}

func threadsOf(pid int) []int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return []int{pid}
	}
	var tids []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// signalPID asks whether processes of the host, whose pids it was told, could
// be signalled. It tells them from namesakes by the name it was told.
func signalPID(r *attempt.Report, args []string) {
	if len(args) < 2 {
		r.Errno = "usage"
		return
	}
	pid, _ := strconv.Atoi(args[0])
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(cmdline, []byte(args[1])) {
		r.Errno = "ESRCH"
		return
	}
	r.Achieved, r.Detail = true, "sees a process of the host"
	if err := unix.Kill(pid, 0); err == nil {
		r.Detail += " and may signal it"
	}
}

func processes(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	for _, pid := range append(others(), os.Getpid()) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			continue
		}
		r.Values[strconv.Itoa(pid)] = []string{strings.TrimSpace(string(comm))}
	}
}

// descriptors lists what this process was born with. Go's runtime opens an
// epoll, an eventfd and its cgroup's limits itself, and the listing is one
// descriptor too: those are left out.
func descriptors(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(link, "anon_inode:[event") || strings.HasPrefix(link, "/proc/") || strings.HasPrefix(link, "/sys/fs/cgroup/") {
			continue
		}
		r.Values[e.Name()] = []string{link}
	}
	buf := make([]byte, 1)
	n, err := unix.Read(0, buf)
	r.Values["stdin"] = []string{strconv.Itoa(n), errnoName(err)}
}

func environment(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{"environ": os.Environ(), "argv": os.Args}
	if dir, err := os.Getwd(); err == nil {
		r.Values["cwd"] = []string{dir}
	}
	mask := unix.Umask(0)
	unix.Umask(mask)
	r.Values["umask"] = []string{strconv.FormatInt(int64(mask), 8)}
}

// secretInProc looks for a secret in the environment and argv of every process.
func secretInProc(r *attempt.Report, args []string) {
	if len(args) < 1 || args[0] == "" {
		r.Errno = "usage"
		return
	}
	// The secret came in two halves, or this very argv would hold it.
	secret := []byte(strings.Join(args, ""))
	for _, pid := range append(others(), os.Getpid()) {
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil && bytes.Contains(b, secret) {
				got(r, fmt.Sprintf("the worker's secret is in /proc/%d/%s", pid, name), nil)
			}
		}
	}
	for _, kv := range os.Environ() {
		if strings.Contains(kv, string(secret)) {
			got(r, "the worker's secret is in the environment", nil)
		}
	}
}

// raiseLimits tries to lift what the agent set.
func raiseLimits(r *attempt.Report, _ []string) {
	for name, resource := range map[string]int{"core": unix.RLIMIT_CORE, "as": unix.RLIMIT_AS, "cpu": unix.RLIMIT_CPU} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil || limit.Max == unix.RLIM_INFINITY {
			continue
		}
		limit.Max++
		err := raw(unix.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(&limit)), 0)
		got(r, "raise "+name, err)
	}
}

// lowerAgent takes from its parent what a process of the same uid may take,
// then ends honestly. What is left of the agent decides whether there is an
// answer; a false one there must not be.
func lowerAgent(_ *attempt.Report, _ []string) {
	for _, resource := range []int{unix.RLIMIT_FSIZE, unix.RLIMIT_NOFILE, unix.RLIMIT_CPU, unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var zero unix.Rlimit
		_ = raw(unix.SYS_PRLIMIT64, uintptr(os.Getppid()), uintptr(resource), uintptr(unsafe.Pointer(&zero)), 0)
	}
	fmt.Println("honest")
	os.Exit(7)
}

func priority(r *attempt.Report, _ []string) {
	got(r, "nice -20", unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		got(r, "oom_score_adj", err)
		return
	}
	_, err = unix.Write(fd, []byte("-1000"))
	_ = unix.Close(fd)
	got(r, "oom_score_adj -1000", err)
}
