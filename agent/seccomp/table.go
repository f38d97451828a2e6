package seccomp

import "slices"

// The groups, in the order in which they are documented.
var (
	groupProcesses  = Group{"Other processes", "Looking into, changing or borrowing from a process that is not one's own: the agent has the same uid."}
	groupNamespaces = Group{"Namespaces", "A new user namespace hands out every capability inside it, and with them most of the kernel's attack surface."}
	groupMounts     = Group{"Mounts and file systems", "Changing what the file tree is made of, by the old calls and by the new ones, which a list made for the old ones alone lets pass (CVE-2021-41133)."}
	groupKeys       = Group{"Keyrings", "Keys can outlive a run, and whatever has the same uid can reach them, so two runs could meet there."}
	groupKernel     = Group{"Kernel code and kernel state", "Loading code into the kernel, replacing it, reading its log, or changing state that belongs to the whole machine."}
	groupSurface    = Group{"Large attack surface", "Interfaces that a scanner can do without and that have been a way into the kernel again and again."}
	groupHardware   = Group{"Hardware", "Ports, descriptor tables and device nodes."}
	groupTerminals  = Group{"Terminals", "Typing into the terminal that the sandbox was started from."}
	groupSockets    = Group{"Socket families", "Every family but the four that programs use: AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK. New ones are refused before anybody knows them."}
)

// Groups returns the groups in the order in which they are documented.
func Groups() []Group {
	return []Group{
		groupProcesses, groupNamespaces, groupMounts, groupKeys, groupKernel,
		groupSurface, groupHardware, groupTerminals, groupSockets,
	}
}

// Rules returns the whole table. A call may stand in more than one rule; the
// rules of one call never contradict each other.
func Rules() []Rule {
	return slices.Concat(processRules(), namespaceRules(), mountRules(), kernelRules(), surfaceRules(), argumentRules())
}

func processRules() []Rule {
	return []Rule{
		{
			Group: groupProcesses, Calls: []string{"ptrace"}, Answer: EPERM,
			Why: "takes over another process of the same uid, and was a way around seccomp itself before Linux 4.8",
		},
		{
			Group: groupProcesses, Calls: []string{"process_vm_readv", "process_vm_writev"}, Answer: EPERM,
			Why: "reads and writes another process's memory",
		},
		{
			Group: groupProcesses, Calls: []string{"process_madvise"}, Answer: EPERM,
			Why: "changes how another process's memory behaves",
		},
		{
			Group: groupProcesses, Calls: []string{"pidfd_getfd"}, Answer: EPERM,
			Why: "takes a descriptor out of another process",
		},
		{
			Group: groupProcesses, Calls: []string{"kcmp"}, Answer: EPERM,
			Why: "tells kernel pointers of two processes apart, which helps to find them",
		},
		{
			Group: groupProcesses, Calls: []string{"move_pages", "migrate_pages"}, Answer: EPERM,
			Why: "moves another process's pages, and tells where they are",
		},
		{
			Group: groupProcesses, Calls: []string{"perf_event_open"}, Answer: EPERM,
			Why: "measures other processes and the kernel, with a long record of kernel bugs", Link: "CVE-2013-2094",
		},
	}
}

func namespaceRules() []Rule {
	return []Rule{
		{
			Group: groupNamespaces, Calls: []string{"unshare", "setns"}, Answer: EPERM,
			Why: "makes or enters a namespace", Link: "CVE-2022-0185",
		},
		{
			Group: groupNamespaces, Calls: []string{"clone"}, Answer: EPERM,
			When: &Condition{Arg: 0, Test: AnyBit, Values: []Value{
				{"CLONE_NEWNS", 0x00020000},
				{"CLONE_NEWCGROUP", 0x02000000},
				{"CLONE_NEWUTS", 0x04000000},
				{"CLONE_NEWIPC", 0x08000000},
				{"CLONE_NEWUSER", 0x10000000},
				{"CLONE_NEWPID", 0x20000000},
				{"CLONE_NEWNET", 0x40000000},
			}},
			Why: "makes a namespace; CLONE_NEWTIME has no bit here, clone(2) reads it as part of the exit signal",
		},
		{
			Group: groupNamespaces, Calls: []string{"clone3"}, Answer: ENOSYS,
			Why:  "keeps its flags in memory, where no filter can see them; libc then falls back on clone. With EPERM it would not, and no thread would start",
			Link: "https://github.com/moby/moby/issues/42680",
		},
	}
}

func mountRules() []Rule {
	return []Rule{
		{
			Group: groupMounts, Calls: []string{"mount", "umount2", "pivot_root", "chroot"}, Answer: EPERM,
			Why: "changes the file tree, or which part of it is the root",
		},
		{
			Group: groupMounts, Calls: []string{
				"fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
			}, Answer: EPERM,
			Why: "does the same in smaller steps", Link: "CVE-2021-41133",
		},
		{
			Group: groupMounts, Calls: []string{"swapon", "swapoff", "quotactl", "quotactl_fd", "acct"}, Answer: EPERM,
			Why: "administers swap, quotas and accounting of the whole machine",
		},
		{
			Group: groupMounts, Calls: []string{"open_by_handle_at"}, Answer: EPERM,
			Why: "opens a file by its inode, past every directory and mount above it", Link: "https://github.com/gabrtv/shocker",
		},
		{
			Group: groupMounts, Calls: []string{"fanotify_init"}, Answer: EPERM,
			Why: "watches, and can hold up, other processes' opens",
		},
		{
			Group: groupMounts, Calls: []string{"sysfs", "ustat", "nfsservctl", "lookup_dcookie"}, Answer: EPERM,
			Why: "is obsolete and tells about file systems or the profiler; nothing current calls it",
		},
	}
}

func kernelRules() []Rule {
	return []Rule{
		{
			Group: groupKeys, Calls: []string{"add_key", "request_key", "keyctl"}, Answer: EPERM,
			Why: "stores and fetches keys in the kernel, shared by uid", Link: "CVE-2016-0728",
		},
		{Group: groupKernel, Calls: []string{
			"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
		}, Answer: EPERM, Why: "loads, removes or lists kernel code"},
		{
			Group: groupKernel, Calls: []string{"kexec_load", "kexec_file_load", "reboot"}, Answer: EPERM,
			Why: "replaces or stops the kernel",
		},
		{
			Group: groupKernel, Calls: []string{"syslog"}, Answer: EPERM,
			Why: "reads the kernel's log, addresses and other runs' traces included",
		},
		{
			Group: groupKernel, Calls: []string{"settimeofday", "clock_settime", "sethostname", "setdomainname", "vhangup", "_sysctl", "uselib"}, Answer: EPERM,
			Why: "changes the clock, the host's name, a terminal or a tunable",
		},
		{
			Group: groupKernel, Calls: []string{"personality"}, Answer: EPERM,
			When: &Condition{Arg: 0, Test: NoneOf, Values: []Value{
				{"PER_LINUX", 0}, {"PER_LINUX32", 8}, {"UNAME26", 0x20000}, {"UNAME26|PER_LINUX32", 0x20008}, {"query", 0xffffffff},
			}},
			Why: "switches off address randomisation and makes mappings executable or page zero usable; the five harmless values are what libc and Java ask for",
		},
	}
}

func surfaceRules() []Rule {
	return []Rule{
		{
			Group: groupSurface, Calls: []string{"bpf"}, Answer: EPERM,
			Why: "runs one's own program in the kernel", Link: "CVE-2021-3490",
		},
		{
			Group: groupSurface, Calls: []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, Answer: EPERM,
			Why:  "does other calls' work where no filter sees it, the denied socket families among it. EPERM and not another errno: programs fall back on it",
			Link: "https://github.com/semgrep/semgrep/issues/11836",
		},
		{
			Group: groupSurface, Calls: []string{"userfaultfd"}, Answer: EPERM,
			Why: "holds the kernel still in the middle of a copy, which turns races into certainties",
		},
		{
			Group: groupHardware, Calls: []string{"ioperm", "iopl", "modify_ldt"}, Answer: EPERM,
			Why: "reaches I/O ports and the processor's descriptor tables", Link: "CVE-2017-17053",
		},
		{
			Group: groupHardware, Calls: []string{"mknod", "mknodat"}, Answer: EPERM,
			Why: "makes device nodes. FIFOs go the same way on purpose: one left in the work directory would hold up whoever reads there afterwards",
		},
	}
}

// argumentRules are about calls that every program makes.
func argumentRules() []Rule {
	families := &Condition{Arg: 0, Test: NoneOf, Values: []Value{
		{"AF_UNSPEC", 0}, {"AF_UNIX", 1}, {"AF_INET", 2}, {"AF_INET6", 10}, {"AF_NETLINK", 16},
	}}
	return []Rule{
		{
			Group: groupTerminals, Calls: []string{"ioctl"}, Answer: EPERM,
			When: &Condition{Arg: 1, Test: AnyOf, Values: []Value{{"TIOCSTI", 0x5412}, {"TIOCLINUX", 0x541C}}},
			Why:  "puts input into a terminal, which the shell behind it then executes", Link: "CVE-2017-5226, CVE-2023-28100",
		},
		{
			Group: groupTerminals, Calls: []string{"ioctl"}, Answer: EPERM,
			When: &Condition{Arg: 1, Test: AnyOf, Values: []Value{{"TIOCSETD", 0x5423}}},
			Why:  "loads a line discipline of the caller's choice into the kernel", Link: "CVE-2017-2636",
		},
		{
			Group: groupSockets, Calls: []string{"socket", "socketpair"}, Answer: EPERM, When: families,
			Why:  "AF_ALG writes to the page cache of files that are read-only everywhere else, AF_VSOCK reaches a virtual machine's host past every network namespace, AF_PACKET sees raw frames, and the rest is old code that loads itself on demand. AF_NETLINK stays: libc and Go list interfaces with it",
			Link: "CVE-2026-31431, CVE-2021-26708, CVE-2020-14386",
		},
	}
}
