package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

// roomWalls are what the runtime builds around the scanner.
func roomWalls() []wall {
	return []wall{
		{
			id: "W50", title: "nobody inside is root", verb: "status", control: BrokenAsRoot, judge: nobodyIsRoot,
			why: "Neither uid 0 nor a capability, effective or to be had, is inside.",
		},
		{id: "W51", title: "nobody becomes root", verb: "become-root", control: BrokenAsRoot, why: "No call and no set-id program gives uid 0."},
		{
			id: "W52", title: "set-id bits mean nothing", verb: "set-id", control: Either, judge: notAsRoot,
			why: "The writable place is nosuid and the scanner has no_new_privs.",
		},
		{
			id: "W53", title: "one place is writable", verb: "writable", control: Broken,
			why: "What is outside the work directory can't be changed, and so nothing of a run stays.",
		},
		{
			id: "W54", title: "the root is read-only", verb: "mounts", control: Broken, judge: readOnlyRoot,
			why: "The scanner's own tree is shared by all its runs.",
		},
		{
			id: "W55", title: "the work directory is nosuid and nodev", verb: "mounts", control: Either, judge: workFlags,
			why: "What an archive puts there is neither privileged nor a device.",
		},
		{id: "W56", title: "no devices", verb: "devices", control: BrokenAsRoot, why: "Beyond null, zero, full, random and terminals of its own, no device may be opened."},
		{
			id: "W57", title: "the kernel's knobs are closed", verb: "proc-writes", control: BrokenAsRoot,
			why: "core_pattern and its kin run programs on the host as root.",
		},
		{id: "W58", title: "the kernel's memory is closed", verb: "kernel-memory", control: BrokenAsRoot, why: "Memory and addresses of the kernel are what an exploit is made from."},
		{
			id: "W59", title: "a file of the host can't be read", verb: "read-file", control: Broken, args: hostFile,
			why: "A world-readable file of the host is not in the room, by whatever path.",
		},
		{
			id: "W60", title: "a process of the host can't be seen", verb: "signal-pid", control: Broken, args: hostProcess,
			why: "What can't be seen can't be signalled, traced or read.",
		},
		{
			id: "W61", title: "the worker's environment can't be read", verb: "secret-in-proc", control: Broken, scoped: true, args: func(t *T) []string { return t.s.plants.halves() },
			why: "The worker holds the credentials that the whole design keeps out.",
		},
		{
			id: "W62", title: "shared memory of the host can't be attached", verb: "sysv-ipc", control: Broken, hostMayLack: true, args: hostMemory,
			why: "System V IPC goes by number and past every file permission that a mount could take away.",
		},
		{
			id: "W63", title: "the room holds the scanner and the agent", verb: "inventory", control: Broken, judge: bareRoom,
			why: "What an escaped scanner finds in the room is no shell, no interpreter and no worker.",
		},
		{id: "W64", title: "no credential is in reach", verb: "credentials", control: Either, why: "Tokens, keys and sockets of engines lie at well-known places."},
		{
			id: "W65", title: "the host name is not the host's", verb: "namespace-links", control: Broken, judge: ownNames,
			why: "Each kind of namespace is the sandbox's own; the host's name is one thing that would tell.",
		},
		{id: "W66", title: "the clock can't be moved", verb: "clock", control: Either, why: "The clock is the whole machine's."},
		{id: "W67", title: "priority can't be raised", verb: "priority", control: Either, why: "A scanner that gets ahead of the worker, or out of the way of the out-of-memory killer, hurts its neighbours."},
	}
}

// networkWalls are what keeps a run without network off every network.
func networkWalls() []wall {
	listener := func(t *T) []string {
		if t.s.plants.tcp == nil {
			t.NotRun("this host has no address but loopback to listen on")
		}
		return []string{t.s.plants.tcp.Addr().String(), "1.1.1.1:53"}
	}
	udp := func(t *T) []string {
		listener(t)
		return []string{t.s.plants.udp.LocalAddr().String()}
	}
	return []wall{
		{
			id: "W70", title: "no TCP", verb: "connect-tcp", control: Broken, args: listener, judge: nobodyCame,
			why: "A scanner without network reaches no listener on a routable address; a refusal would be a packet that arrived.",
		},
		{id: "W71", title: "no TCP over IPv6", verb: "connect-tcp", control: Broken, hostMayLack: true, args: func(t *T) []string {
			if t.s.plants.tcp6 == nil {
				t.NotRun("this host has no IPv6 address but loopback and link-local")
			}
			return []string{t.s.plants.tcp6.Addr().String()}
		}, judge: nobodyCame, why: "A wall that was built for IPv4 alone is half a wall."},
		{id: "W72", title: "no UDP", verb: "send-udp", control: Broken, args: udp, judge: nobodyCame, why: "A datagram carries a secret out as well as a connection does."},
		{id: "W73", title: "no DNS", verb: "dns", control: Broken, args: udp, judge: noOtherResolver, why: "A resolver that answers carries data both ways; where the storage endpoint is a name, the one that names it is allowed and no other."},
		{id: "W74", title: "no ICMP", verb: "icmp", control: BrokenAsRoot, args: func(t *T) []string {
			return []string{strings.Split(listener(t)[0], ":")[0]}
		}, why: "An echo request carries data too."},
		{id: "W75", title: "no raw IP sockets", verb: "raw-inet", control: BrokenAsRoot, why: "Raw sockets forge where a packet comes from."},
		{id: "W76", title: "no abstract sockets of the host", verb: "unix-abstract", control: Broken, scoped: true, args: abstractSocket, why: "Abstract sockets live in the network namespace and have no permissions at all."},
		{id: "W77", title: "no socket files of the host", verb: "unix-path", control: Broken, args: func(t *T) []string {
			return []string{filepath.Join(filepath.Dir(t.s.setup.Dir), "socket")}
		}, why: "An engine's socket is root; none may be in the room."},
		{id: "W78", title: "no way out but the one that the transport needs", verb: "interfaces", control: Broken, judge: interfacesOrOneWay, why: "Without an address of its own a sandbox has no way out; one whose inputs come from a storage endpoint reaches that address and port and nothing else, its gateway and its neighbours included."},
		{id: "W79", title: "netlink changes nothing", verb: "netlink-use", control: BrokenAsRoot, judge: netlinkRefused, why: "Reading addresses over netlink is ordinary; making interfaces is not."},
		{id: "W80", title: "nobody can come in", verb: "listen", control: Broken, judge: nobodyComesIn, why: "A listening socket inside is reachable from nowhere outside."},
		{id: "W81", title: "no family of sockets but the ordinary ones", verb: "odd-families", control: Either, why: "Each further family is kernel code that few have read."},
	}
}

func abstractSocket(t *T) []string { return []string{"@sandbox-conformance-" + t.s.token} }

func nobodyIsRoot(t *T, r attempt.Report) {
	for _, key := range []string{"Uid", "Gid"} {
		t.Expect(r.Values[key]).To(gomega.HaveLen(4))
		t.Expect(r.Values[key]).NotTo(gomega.ContainElement("0"), "%s", key)
	}
	for _, key := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"} {
		t.Expect(strings.Trim(one(r.Values[key]), "0")).To(gomega.BeEmpty(), "%s is %v", key, r.Values[key])
	}
}

func notAsRoot(t *T, r attempt.Report) {
	t.Expect(r.Detail).NotTo(gomega.ContainSubstring("ran as uid 0"))
	t.Expect(r.Detail).NotTo(gomega.ContainSubstring("chown to root"))
}

func readOnlyRoot(t *T, r attempt.Report) {
	t.Expect(r.Values).To(gomega.HaveKey("/"), "the root is no mount point of the sandbox's own")
	t.Expect(strings.Split(one(r.Values["/"]), ",")).To(gomega.ContainElement("ro"), "the root is mounted %v", r.Values["/"])
}

// workFlags looks at the mount that the work directory is on.
func workFlags(t *T, r attempt.Report) {
	where := one(t.Hostile("environment").Values["cwd"])
	for ; r.Values[where] == nil; where = filepath.Dir(where) {
		if where == "/" {
			t.Fail("the work directory is on no mount")
		}
	}
	flags := strings.Split(one(r.Values[where]), ",")
	if t.s.target.Unflagged != "" && slices.Contains(flags, "rw") {
		t.note("without flags", where+" is mounted "+strings.Join(flags, ",")+": "+t.s.target.Unflagged)
		withoutFlags(t)
		return
	}
	t.Expect(flags).To(gomega.ContainElements("rw", "nosuid", "nodev"), "%s is mounted %v", where, flags)
}

// withoutFlags looks at what keeps set-id bits and devices from meaning
// anything on a mount that allows both: nobody inside can gain a privilege, the
// agent included, and nobody makes a device.
func withoutFlags(t *T) {
	status := t.Hostile("status")
	for _, key := range []string{"NoNewPrivs", "1:NoNewPrivs"} {
		t.Expect(status.Values[key]).To(gomega.Equal([]string{"1"}), "%s, on a mount that is not nosuid", key)
	}
	notAsRoot(t, t.Hostile("set-id"))
	devices := t.Hostile("mknod")
	t.Expect(devices.Achieved).To(gomega.BeFalse(), "%s, on a mount that is not nodev", devices.Detail)
}

func hostFile(t *T) []string { return []string{t.s.plants.file, "secret-" + t.s.token} }

func hostProcess(t *T) []string { return []string{t.s.plants.pid(), "stand-in-" + t.s.token} }

func hostMemory(t *T) []string {
	if t.s.plants.shm < 0 {
		t.NotRun("this host gives no System V shared memory")
	}
	return []string{strconv.Itoa(t.s.plants.shmKey)}
}

// bareRoom compares the programs inside with what may be there.
func bareRoom(t *T, r attempt.Report) {
	banned := []string{"sh", "bash", "dash", "ash", "zsh", "busybox", "toybox", "python3", "perl", "ruby", "node", "sandboxctl", "batlehub", "apt", "dpkg", "apk", "curl", "wget", "nc", "gcc", "tar", "mount", "su", "sudo"}
	for _, program := range r.Values["programs"] {
		t.Expect(banned).NotTo(gomega.ContainElement(filepath.Base(program)), "%s is in the room", program)
	}
	t.Expect(r.Values["set-id"]).To(gomega.BeEmpty(), "set-id programs are in the room")
	t.Expect(len(r.Values["programs"])).To(gomega.BeNumerically("<=", 8), "the room holds %v", r.Values["programs"])
}

func ownNames(t *T, r attempt.Report) {
	host, err := os.Hostname()
	if err != nil {
		t.Broke("reading this host's name: %v", err)
	}
	t.Expect(r.Values["hostname"]).NotTo(gomega.Equal([]string{host}), "the host's name is known inside")
	for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			continue
		}
		t.Expect(r.Values[kind]).NotTo(gomega.Equal([]string{link}), "the %s namespace is the host's", kind)
	}
}

// nobodyCame judges from both sides: the attacker got nothing, and nobody came
// to the listener.
func nobodyCame(t *T, r attempt.Report) {
	t.Expect(r.Achieved).To(gomega.BeFalse(), "achieved: %s", r.Detail)
	t.Expect(t.s.plants.accepted.Load()).To(gomega.Equal(t.accepted), "somebody came to the planted listener")
}

// noOtherResolver is W73: nobody answers but the resolver that the target names.
func noOtherResolver(t *T, r attempt.Report) {
	t.Expect(r.Calls).NotTo(gomega.BeEmpty(), "no resolver was asked")
	for _, c := range r.Calls {
		if t.resolves(strings.TrimPrefix(c.Name, "an answer from ")) {
			t.note("the resolver that is allowed", c.Name+": "+c.Errno)
			continue
		}
		t.Expect(c.Errno).NotTo(gomega.BeEmpty(), "%s", c.Name)
	}
}

// netlinkRefused takes the kernel's own refusal, or no interface to change.
func netlinkRefused(t *T, r attempt.Report) {
	t.Expect(r.Achieved).To(gomega.BeFalse(), "achieved: %s", r.Detail)
	t.Expect(slices.ContainsFunc(r.Calls, func(c attempt.Call) bool { return c.Errno != "" })).To(gomega.BeTrue(), "nothing was refused: %v", fmt.Sprint(r.Calls))
}
