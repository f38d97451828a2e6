package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"keyring":            keyring,
		"bpf":                single("bpf", unix.SYS_BPF, 0xffff, 0, 0),
		"io-uring":           ioUring,
		"userfaultfd":        single("userfaultfd", unix.SYS_USERFAULTFD, 0xffff),
		"perf-event":         single("perf_event_open", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0xffff),
		"int80":              throughInt80,
		"int80-child":        int80GetPID,
		"x32":                x32GetPID,
		"tiocsti":            terminal(unix.TIOCSTI),
		"tioclinux":          terminal(0x541c),
		"personality":        personality,
		"kernel-calls":       kernelCalls,
		"unknown-syscalls":   unknownSyscalls,
		"proc-writes":        procWrites,
		"kernel-memory":      kernelMemory,
		"devices":            devices,
		"mknod":              mknod,
		"become-root":        becomeRoot,
		"status":             status,
		"clock":              clock,
		"docker-personality": dockerPersonality,
	})
}

// single is an attempt of one call with arguments that can't be followed.
func single(name string, number uintptr, args ...uintptr) verb {
	return func(r *attempt.Report, _ []string) { permitted(r, name, raw(number, args...)) }
}

func keyring(r *attempt.Report, _ []string) {
	permitted(r, "add_key", raw(unix.SYS_ADD_KEY, ptr("user"), ptr("conformance"), ptr("x"), 1, 0))
	permitted(r, "request_key", raw(unix.SYS_REQUEST_KEY, ptr("user"), ptr("conformance"), 0, 0))
	permitted(r, "keyctl", raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 0))
}

func ioUring(r *attempt.Report, _ []string) {
	permitted(r, "io_uring_setup", raw(unix.SYS_IO_URING_SETUP, 1, 0))
	permitted(r, "io_uring_enter", raw(unix.SYS_IO_URING_ENTER, ^uintptr(0), 0, 0, 0, 0))
	permitted(r, "io_uring_register", raw(unix.SYS_IO_URING_REGISTER, ^uintptr(0), 0, 0, 0))
}

// int80 asks for its pid through the 32-bit gate, in a child: where the kernel
// has no such gate the fault kills whoever tried.
func throughInt80(r *attempt.Report, _ []string) {
	if runtime.GOARCH != "amd64" {
		r.Errno = "ENOSYS"
		return
	}
	cmd := exec.Command(self(), "int80-child")
	out, err := cmd.Output()
	inner, perr := attempt.Parse(out)
	if err != nil || perr != nil {
		r.Errno, r.Detail = "SIGSEGV", "the kernel has no 32-bit gate"
		return
	}
	r.Achieved, r.Errno = inner.Achieved, inner.Errno
}

func int80GetPID(r *attempt.Report, _ []string) {
	pid, err := answer(int80(20))
	r.Errno = errnoName(err)
	r.Achieved = err == nil && int(pid) == os.Getpid()
}

func x32GetPID(r *attempt.Report, _ []string) {
	got(r, "x32 getpid", raw(0x40000000|unix.SYS_GETPID))
	got(r, "x32 unshare", raw(0x40000000|unix.SYS_UNSHARE, unix.CLONE_NEWUSER))
}

// terminal tries to push input into a terminal. The request is tried bare and
// with bits above the 32 that the kernel reads, which fooled filters that
// compared all 64 (CVE-2019-7303). Every errno but a wall's says that the
// call reached the kernel.
func terminal(request uintptr) verb {
	return func(r *attempt.Report, _ []string) {
		space := []byte{' ', 0}
		for fd := range uintptr(3) {
			permitted(r, "ioctl", raw(unix.SYS_IOCTL, fd, request, ptr(string(space[:1]))))
			permitted(r, "ioctl with high bits", raw(unix.SYS_IOCTL, fd, request|1<<32, ptr(string(space[:1]))))
		}
	}
}

// personality asks for what makes exploits easy: no address randomisation,
// readable implies executable.
func personality(r *attempt.Report, _ []string) {
	permitted(r, "ADDR_NO_RANDOMIZE", raw(unix.SYS_PERSONALITY, 0x0040000))
	permitted(r, "READ_IMPLIES_EXEC", raw(unix.SYS_PERSONALITY, 0x0400000))
	permitted(r, "ADDR_NO_RANDOMIZE with high bits", raw(unix.SYS_PERSONALITY, 0x0040000|1<<32))
}

// dockerPersonality asks for the values that libc and Java use. It achieves
// its end when all are allowed, as they must be.
func dockerPersonality(r *attempt.Report, _ []string) {
	r.Achieved = true
	for _, value := range []uintptr{0, 8, 0x20000, 0x20008, 0xffffffff} {
		err := raw(unix.SYS_PERSONALITY, value)
		r.Calls = append(r.Calls, attempt.Call{Name: strconv.FormatUint(uint64(value), 16), Errno: errnoName(err)})
		r.Achieved = r.Achieved && err == nil
	}
	_ = raw(unix.SYS_PERSONALITY, 0)
}

// kernelCalls tries what only an administrator has business with.
func kernelCalls(r *attempt.Report, _ []string) {
	bad := ^uintptr(0)
	for _, c := range append([]kernelCall{
		{"reboot", unix.SYS_REBOOT, []uintptr{0, 0, 0}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, []uintptr{0, 99, 0, 0xffff}},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, []uintptr{bad, bad, 0, 0, 0xffff}},
		{"init_module", unix.SYS_INIT_MODULE, []uintptr{0, 0, 0}},
		{"finit_module", unix.SYS_FINIT_MODULE, []uintptr{bad, 0, 0}},
		{"delete_module", unix.SYS_DELETE_MODULE, []uintptr{0, 0}},
		{"swapon", unix.SYS_SWAPON, []uintptr{ptr("/no-such"), 0}},
		{"swapoff", unix.SYS_SWAPOFF, []uintptr{ptr("/no-such")}},
		{"acct", unix.SYS_ACCT, []uintptr{ptr("/no-such")}},
		{"quotactl", unix.SYS_QUOTACTL, []uintptr{0xffff, 0, 0, 0}},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []uintptr{bad, 0, 0}},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, []uintptr{0xffff, 0xffff}},
		{"kcmp", unix.SYS_KCMP, []uintptr{0, 0, 99, 0, 0}},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, []uintptr{bad, 0, 0}},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, []uintptr{bad, 0, 0, 0, 0}},
		{"syslog", unix.SYS_SYSLOG, []uintptr{10, 0, 0}},
		{"setdomainname", unix.SYS_SETDOMAINNAME, []uintptr{0, 1 << 20}},
		{"move_pages", unix.SYS_MOVE_PAGES, []uintptr{0, 1, 0, 0, 0, 99}},
		{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE, []uintptr{0, 0, 0}},
	}, archCalls...) {
		permitted(r, c.name, raw(c.number, c.args...))
	}
}

type kernelCall struct {
	name   string
	number uintptr
	args   []uintptr
}

// unknownSyscalls tries numbers that no kernel of today has; the filter has to
// answer them as a kernel without them would.
func unknownSyscalls(r *attempt.Report, _ []string) {
	for _, number := range []uintptr{600, 1023, 100_000, 0x3fffffff} {
		err := raw(number)
		r.Calls = append(r.Calls, attempt.Call{Name: strconv.Itoa(int(number)), Errno: errnoName(err)})
		if errnoName(err) != "ENOSYS" {
			r.Achieved, r.Detail = true, "an unknown system call answered "+errnoName(err)
		}
	}
}

// procWrites opens the kernel's knobs for writing and writes nothing.
func procWrites(r *attempt.Report, _ []string) {
	for _, name := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
		"/proc/sys/kernel/sysrq", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/vm/panic_on_oom",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces",
		"/proc/irq/default_smp_affinity", "/proc/bus/pci", "/proc/scsi/scsi", "/proc/timer_list", "/proc/mtrr",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/devices/devices.allow",
		"/sys/class/net/lo/mtu", "/sys/kernel/debug", "/sys/firmware/efi/vars",
	} {
		got(r, name, reached(name, unix.O_WRONLY))
	}
}

// reached opens a file of the kernel's. One that an engine has covered with
// the null device opens, and is not reached.
func reached(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		return unix.ENXIO
	}
	return nil
}

// kernelMemory reads what tells about the kernel or the machine's memory.
func kernelMemory(r *attempt.Report, _ []string) {
	for _, name := range []string{"/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/proc/vmallocinfo", "/proc/slabinfo"} {
		got(r, name, reached(name, unix.O_RDONLY|unix.O_NONBLOCK))
	}
	if b, err := os.ReadFile("/proc/kallsyms"); err == nil {
		if address, _, _ := strings.Cut(string(b), " "); strings.Trim(address, "0") != "" {
			got(r, "kernel addresses in /proc/kallsyms", nil)
		}
	}
}

// harmless are the devices that every program may have.
var harmless = map[string]bool{
	"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true,
	"/dev/tty": true, "/dev/ptmx": true, "/dev/pts/ptmx": true,
}

// devices asks which device nodes below /dev it may open. It opens none: that
// alone starts a watchdog and rewinds a tape.
func devices(r *attempt.Report, _ []string) {
	walk("/dev", 4, 5000, func(name string, st *unix.Stat_t) {
		kind := st.Mode & unix.S_IFMT
		if kind != unix.S_IFCHR && kind != unix.S_IFBLK || harmless[name] || strings.HasPrefix(name, "/dev/pts/") {
			return
		}
		got(r, name, unix.Access(name, unix.R_OK))
	})
}

// mknod makes device nodes in the writable place and opens them.
func mknod(r *attempt.Report, _ []string) {
	for _, d := range []struct {
		name         string
		mode         uint32
		major, minor uint32
	}{{"char-mem", unix.S_IFCHR, 1, 1}, {"char-null", unix.S_IFCHR, 1, 3}, {"block", unix.S_IFBLK, 8, 0}, {"block-vda", unix.S_IFBLK, 254, 0}} {
		err := unix.Mknod(d.name, d.mode|0o600, int(unix.Mkdev(d.major, d.minor)))
		if err == nil {
			_ = unix.Unlink(d.name)
		}
		got(r, "mknod "+d.name, err)
	}
}

// becomeRoot tries to be or become uid 0.
func becomeRoot(r *attempt.Report, _ []string) {
	got(r, "setuid 0", unix.Setuid(0))
	got(r, "setgid 0", unix.Setgid(0))
	got(r, "setresuid 0", unix.Setresuid(0, 0, 0))
	got(r, "setgroups", unix.Setgroups([]int{0}))
	if os.Geteuid() == 0 {
		got(r, "effective uid 0", nil)
	}
}

// status copies the lines of /proc/self/status that speak of walls.
func status(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	if err := readStatus(r, "/proc/self/status", ""); err != nil {
		r.Errno = errnoName(err)
		return
	}
	// What the agent has is what was there before it did anything.
	_ = readStatus(r, "/proc/1/status", "1:")
	for name, resource := range map[string]int{
		"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_CORE": unix.RLIMIT_CORE,
		"RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_NPROC": unix.RLIMIT_NPROC,
	} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			continue
		}
		r.Values[name] = []string{strconv.FormatUint(limit.Cur, 10), strconv.FormatUint(limit.Max, 10)}
	}
}

func readStatus(r *attempt.Report, file, prefix string) error {
	b, err := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			r.Values[prefix+key] = strings.Fields(value)
		}
	}
	return err
}

// clock tries to move the machine's clock by nothing at all.
func clock(r *attempt.Report, _ []string) {
	var zero unix.Timex
	zero.Modes = unix.ADJ_SETOFFSET | unix.ADJ_NANO
	_, err := unix.Adjtimex(&zero)
	got(r, "adjtimex ADJ_SETOFFSET 0", err)
}
