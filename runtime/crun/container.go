package crun

import (
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// What a sandbox sees.
const (
	// AgentPath is where the agent is in every room. It is part of the
	// read-only tree, because every bind is noexec.
	AgentPath = "/usr/local/bin/batlehub-sandbox"

	workDir   = "/work"
	bundleDir = "/bundle"
	outDir    = "/out"
	pathEnv   = "/usr/local/bin:/usr/bin:/bin"
	// hostname is the same in every run, so it tells nothing about the host.
	hostname = "batlehub-sandbox"
)

const (
	// usernsSize is how many ids a sandbox's user namespace has.
	usernsSize = 65536
	// openFiles is RLIMIT_NOFILE of the agent, soft and hard.
	openFiles = 4096
	// cpuPeriod is the period of the cpu quota in microseconds.
	cpuPeriod = 100_000
	// spareInodes is how many files a run may have beyond those of its
	// archives: its own, and the scanner's.
	spareInodes = 4096
)

// Container is one sandbox as data: all that Spec is told.
type Container struct {
	// Flavour is the program's.
	Flavour Flavour
	// Room is the root directory on the host, absolute.
	Room string
	// Inputs are the host's directories or files that the sandbox may read,
	// each at its own place inside.
	Inputs []Input
	// TmpDir says that the room's /tmp is a directory, and not a link into the
	// scratch space as in the rooms of package room.
	TmpDir bool
	// Out is the host's directory that the manifest is in and the result goes
	// to.
	Out string
	// UID and GID are whom the agent runs as, inside.
	UID, GID uint32
	// UsernsBase is the host's id of the sandbox's id 0.
	UsernsBase uint32
	// Limits bound the whole sandbox: MemoryMB, and Processes as the number
	// of its threads. CPUMilli is thousandths of a CPU.
	Limits   wire.Limits
	CPUMilli int64
	// Policy bounds the scratch space.
	Policy wire.ExtractPolicy
	// CgroupPath is the sandbox's cgroup, absolute from the hierarchy's root.
	CgroupPath string
	// Host is what the kernel has.
	Host Facts
	// Seccomp is the scanner's own profile; nil means the reduction of the
	// containers' default profile.
	Seccomp *specs.LinuxSeccomp
	// Label and Deadline say whose it is and until when.
	Label    wire.Label
	Deadline time.Time
}

// Input is one read-only bind.
type Input struct{ Host, Inside string }

// Facts are what a sandbox's configuration depends on of its host.
type Facts struct {
	// IPC and CgroupNS say that the kernel has these namespaces.
	IPC, CgroupNS bool
	// Ramdisk says that this process's root is the kernel's first file
	// system, which pivot_root can't leave.
	Ramdisk bool
	// Keys says that the kernel has keyrings.
	Keys bool
	// V1 says that the limits are set through cgroup v1, Swap that swap can
	// be limited.
	V1, Swap bool
	// OpenFiles is how many open files a sandbox can have at most; 0 means as
	// many as it is to have.
	OpenFiles uint64
}

// mount is one of the two things that are mounted for a run: a bind of the
// host's, or a tmpfs when host is empty.
type mount struct {
	host, inside string
	writable     bool
	sizeMB       int64
	inodes       int64
	mode         uint32
}
