package conformance

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

// wall is a spec that is one attempt of the hostile program, which must not
// achieve what it tries.
type wall struct {
	id, title, why string
	verb           string
	control        Control
	// args are the verb's arguments; nil for none.
	args func(*T) []string
	// errnos are what every call must answer; empty for any refusal.
	errnos []string
	// hostMayLack is Spec.HostMayLack, scoped Spec.Scoped.
	hostMayLack, scoped bool
	// network says that the run has one, and what is left must hold all the same.
	network bool
	// judge looks closer than "not achieved"; nil for that alone.
	judge func(*T, attempt.Report)
}

func (w wall) spec() Spec {
	needs := []Capability{Walls}
	if w.network {
		needs = append(needs, Network)
	}
	return Spec{
		ID: w.id, Group: Walled, Title: w.title, Why: w.why, Needs: needs, Control: w.control,
		Scoped: w.scoped, HostMayLack: w.hostMayLack, check: w.check,
	}
}

func (w wall) check(t *T) {
	var args []string
	if w.args != nil {
		args = w.args(t)
	}
	spec := t.HostileSpec(w.verb, args...)
	spec.Network = w.network
	r := t.HostileRun(spec)
	if w.judge != nil {
		w.judge(t, r)
		return
	}
	t.Expect(r.Achieved).To(gomega.BeFalse(), "achieved: %s", clip(r.Detail, 500))
	for _, c := range r.Calls {
		if len(w.errnos) > 0 {
			t.Expect(w.errnos).To(gomega.ContainElement(c.Errno), "%s answered %q", c.Name, c.Errno)
		}
	}
}

func wallSpecs() []Spec {
	var specs []Spec
	for _, w := range slices.Concat(filterWalls(), agentWalls(), roomWalls(), networkWalls(), scopeWalls()) {
		specs = append(specs, w.spec())
	}
	return slices.Concat(specs, scopedRuns(), storageWalls(), runWalls(), engineWalls())
}

// eperm is what the filter answers.
var eperm = []string{"EPERM"}

// filterWalls are kept by the agent's filter, under every runtime.
func filterWalls() []wall {
	return []wall{
		{
			id: "W01", title: "no new user namespace", verb: "unshare-user", errnos: eperm,
			why: "A user namespace gives a process capabilities over much of the kernel that it could not reach before, so unshare refuses one.",
		},
		{
			id: "W02", title: "no new namespace of any kind", verb: "unshare-each", errnos: eperm,
			why: "Each kind of namespace opens code of the kernel that was written for administrators.",
		},
		{
			id: "W03", title: "clone makes no namespace", verb: "clone-newuser", errnos: eperm,
			why: "clone takes the same flags as unshare and has to be looked at by flag, for processes are made with it.",
		},
		{
			id: "W04", title: "clone3 is not there", verb: "clone3", errnos: []string{"ENOSYS"},
			why: "clone3 keeps its flags in memory, where no filter sees them; ENOSYS alone makes libraries fall back on clone.",
		},
		{
			id: "W05", title: "no entering of namespaces", verb: "setns", errnos: []string{"EPERM", "EACCES", "ENOENT", "ESRCH"},
			why: "setns would lead into another process's view of the machine.",
		},
		{
			id: "W06", title: "nothing is mounted", verb: "mount", errnos: eperm,
			why: "A mount changes what every path means.",
		},
		{
			id: "W07", title: "nothing is mounted through the new API", verb: "mount-new-api", errnos: eperm,
			why: "fsopen and its kin mount without mount(2) and are forgotten by filters that are older than they are (CVE-2021-41133).",
		},
		{
			id: "W08", title: "nothing is unmounted", verb: "umount", errnos: eperm,
			why: "What a mount covers was covered for a reason.",
		},
		{
			id: "W09", title: "no chroot", verb: "chroot",
			why: "A process that may chroot can walk out of a root it was put into.",
		},
		{
			id: "W10", title: "no pivot_root", verb: "pivot-root", errnos: eperm,
			why: "pivot_root is how one leaves the tree one was given.",
		},
		{
			id: "W11", title: "the host name stays", verb: "sethostname", control: Either,
			why: "A name is configuration, and setting it takes a capability that nothing inside may hold.",
		},
		{
			id: "W12", title: "the agent can't be traced", verb: "ptrace-agent", errnos: eperm,
			why: "Who traces the agent writes the result.",
		},
		{
			id: "W13", title: "the agent's memory can't be copied", verb: "process-vm-agent", errnos: eperm,
			why: "The agent's memory holds the key that the result is sealed with.",
		},
		{
			id: "W14", title: "no keyrings", verb: "keyring", errnos: eperm,
			why: "Keys are shared by uid and not by namespace: a way to talk between sandboxes.",
		},
		{id: "W15", title: "no BPF", verb: "bpf", errnos: eperm, why: "BPF is a compiler in the kernel, and was the way in more than once."},
		{
			id: "W16", title: "no io_uring", verb: "io-uring", errnos: eperm,
			why: "io_uring does what the filter forbids without making the calls; EPERM is the answer that programs fall back on.",
		},
		{id: "W17", title: "no userfaultfd", verb: "userfaultfd", errnos: eperm, why: "userfaultfd stops the kernel where an exploit needs it to."},
		{id: "W18", title: "no performance counters", verb: "perf-event", errnos: eperm, why: "perf_event_open watches other processes and is a large part of the kernel to reach."},
		{
			id: "W19", title: "no 32-bit gate", verb: "int80", errnos: []string{"EPERM", "ENOSYS", "SIGSEGV"},
			why: "The i386 gate has numbers of its own, which a filter that does not look at the architecture lets through.",
		},
		{id: "W20", title: "no x32 calls", verb: "x32", errnos: []string{"EPERM", "ENOSYS"}, why: "x32 numbers are the native ones with a bit set, which a filter by number does not match."},
		{
			id: "W21", title: "no typing into a terminal", verb: "tiocsti", errnos: eperm,
			why: "TIOCSTI puts characters into the terminal that the worker was started from (CVE-2017-5226).",
		},
		{id: "W22", title: "no typing into a console", verb: "tioclinux", errnos: eperm, why: "TIOCLINUX pastes into a console, as TIOCSTI types (CVE-2023-28100)."},
		{id: "W23", title: "address randomisation stays", verb: "personality", errnos: eperm, why: "personality switches off what makes exploits hard; the values that libc uses are another spec."},
		{
			id: "W24", title: "nothing that administers the machine", verb: "kernel-calls", errnos: []string{"EPERM", "ENOSYS"},
			why: "Modules, kexec, reboot, swap, accounting, raw I/O and handles of files are nobody's business inside.",
		},
		{
			id: "W25", title: "calls that do not exist yet are not there", verb: "unknown-syscalls",
			why: "A list of what is denied ages: a number above what it knows answers ENOSYS, as on the kernel that it was made for.",
		},
		{id: "W26", title: "no device nodes are made", verb: "mknod", why: "A device node in a writable place is the device."},
		{id: "W27", title: "no packet sockets", verb: "packet", why: "AF_PACKET reads and writes what is on the wire."},
		{id: "W28", title: "no vsock", verb: "vsock", why: "AF_VSOCK reaches the hypervisor's side past every network wall."},
		{id: "W29", title: "no kernel crypto sockets", verb: "alg", why: "AF_ALG wrote into the page cache of files that were mounted read-only (CVE-2026-31431)."},
		{id: "W30", title: "a socket's family is compared as the kernel does", verb: "socket-high-bits", why: "The kernel reads 32 bits of the family; a filter that compares 64 is walked around (CVE-2019-7303)."},
		{id: "W31", title: "a program that the scanner wrote is behind the same walls", verb: "exec-in-work", why: "The filter is inherited, whatever is executed."},
		{
			id: "W32", title: "filter and no_new_privs are on", verb: "status", judge: filterIsOn,
			why: "Both are read from the scanner's own status, so that none is believed to be on because it was asked for.",
		},
		{
			id: "W33", title: "the limits are as asked", verb: "status", judge: limitsAreSet,
			why: "Address space, CPU time, core files, file size and descriptors have one meaning under every runtime.",
		},
		{
			id: "W34", title: "limits can't be raised", verb: "rlimits-raise", control: Either,
			why: "A limit that its holder can raise is none.",
		},
	}
}

// agentWalls keep the agent, which shares the scanner's uid, out of its reach.
func agentWalls() []wall {
	return []wall{
		{
			id: "W35", title: "no process's memory can be opened", verb: "mem-agent", control: Broken, scoped: true,
			why: "/proc/<pid>/mem is ptrace by another name, and the filter can't see it: only an undumpable agent is safe from its own uid.",
		},
		{
			id: "W36", title: "what /proc tells of the agent is closed", verb: "proc-agent", control: BrokenAsRoot, scoped: true,
			why: "Its environment, maps, descriptors and directories are of use to nobody but an attacker.",
		},
		{
			id: "W37", title: "no URL can be found", verb: "urls", args: exchangeDir, control: Broken, scoped: true,
			why: "What the agent was given is consumed before the scanner starts; what is left of value in argv, memory or files is nothing.",
		},
		{
			id: "W38", title: "the agent's program can't be changed", verb: "overwrite-agent", control: BrokenAsRoot,
			why: "The next run would execute it.",
		},
		{
			id: "W39", title: "signals do not move the agent", verb: "signal-agent", control: Broken, scoped: true,
			why: "A scanner may signal its own uid; the agent survives every signal there is and still delivers the result.",
		},
		{
			id: "W40", title: "only the sandbox's own processes are there", verb: "processes", control: Broken, judge: fewProcesses,
			why: "In the room there are the agent, the scanner and what the scanner started.",
		},
		{
			id: "W41", title: "no descriptor is inherited", verb: "descriptors", judge: threeDescriptors,
			why: "A descriptor of the worker's, or a standard input that somebody feeds, would be a channel through the wall.",
		},
		{
			id: "W42", title: "the agent's own files are gone", verb: "leftovers", args: exchangeDir,
			why: "The manifest holds the key and the inputs' places: both are gone before the scanner starts.",
		},
	}
}

// exchangeDir tells the attacker where bundle and result pass, besides the work
// directory.
func exchangeDir(t *T) []string {
	if t.s.target.Exchange == "" {
		return nil
	}
	return []string{"exchange=" + t.s.target.Exchange}
}

func filterIsOn(t *T, r attempt.Report) {
	t.Expect(r.Values["Seccomp"]).To(gomega.Equal([]string{"2"}), "Seccomp in /proc/self/status")
	t.Expect(r.Values["NoNewPrivs"]).To(gomega.Equal([]string{"1"}), "NoNewPrivs in /proc/self/status")
	shown := r.Values["Seccomp_filters"]
	if len(shown) == 0 {
		return // a kernel that does not count them (Linux before 5.9, gVisor)
	}
	filters, err := strconv.Atoi(one(shown))
	t.Expect(err == nil && filters >= 1).To(gomega.BeTrue(), "Seccomp_filters is %v", r.Values["Seccomp_filters"])
}

func limitsAreSet(t *T, _ attempt.Report) {
	spec := t.HostileSpec("status")
	spec.Limits.AddressSpaceMB, spec.Limits.CPUSeconds, spec.Limits.FileMB, spec.Limits.OpenFiles = 1536, 77, 33, 111
	r := t.HostileRun(spec)
	both := func(n int64) []string { s := strconv.FormatInt(n, 10); return []string{s, s} }
	t.Expect(r.Values["RLIMIT_AS"]).To(gomega.Equal(both(1536<<20)), "RLIMIT_AS")
	t.Expect(one(r.Values["RLIMIT_CPU"])).To(gomega.Equal("77"), "RLIMIT_CPU")
	t.Expect(r.Values["RLIMIT_CORE"]).To(gomega.Equal(both(0)), "RLIMIT_CORE")
	t.Expect(r.Values["RLIMIT_FSIZE"]).To(gomega.Equal(both(33<<20)), "RLIMIT_FSIZE")
	t.Expect(one(r.Values["RLIMIT_NOFILE"])).To(gomega.Equal("111"), "RLIMIT_NOFILE")
}

func one(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func fewProcesses(t *T, r attempt.Report) {
	t.Expect(len(r.Values)).To(gomega.BeNumerically("<=", 3), "sees %d processes: %s", len(r.Values), clip(fmt.Sprint(r.Values), 400))
	t.Expect(r.Values).To(gomega.HaveKey("1"), "there is no pid 1 to be seen")
}

func threeDescriptors(t *T, r attempt.Report) {
	for number, link := range r.Values {
		if number == "stdin" {
			t.Expect(link).To(gomega.Equal([]string{"0", ""}), "standard input is not at its end")
			continue
		}
		t.Expect([]string{"0", "1", "2"}).To(gomega.ContainElement(number), "descriptor %s is %v", number, link)
	}
}
