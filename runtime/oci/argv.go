package oci

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// What a sandbox sees.
const (
	workDir   = "/work"
	bundleDir = "/bundle"
	pathEnv   = "/usr/local/bin:/usr/bin:/bin"
	agent     = "batlehub-sandbox"
	hostname  = "sandbox"
)

// UID is the uid and gid that every sandbox sees itself as.
const UID = 65532

// pidsLimit is how many processes and threads a container may have at least;
// a scanner that may have more gets a container that may.
const pidsLimit = 256

// Instance is what one run's command line is made of besides its
// configuration and its spec.
type Instance struct {
	// Image is the image to run. It has been checked (see ParseImage).
	Image string
	// In and Out are the agent's two URLs.
	In, Out string
	// Mount is the directory that becomes /bundle; empty with the storage
	// transport.
	Mount string
	// Network is the network to join; empty means the engine's default. It is
	// "none" for a run that needs no network at all.
	Network string
	// Own says that Network is the run's own.
	Own bool
	// Hosts are names that the container can resolve, as "name:ip".
	Hosts []string
	// HostsFile is the file with those names that a podman container is given
	// as its /etc/hosts; empty means that it has none.
	HostsFile string
	// Resolvers are the ones to ask on a network of the run's own; without any
	// names are not resolved there.
	Resolvers []string
	// Deadline is when the run is over at the latest. A podman container ends
	// by itself Lifetime after its start, should nobody end it before.
	Deadline time.Time
	Lifetime time.Duration
}

// Argv is the command line of one run, binary included. It is a pure function:
// equal arguments give an equal command line, and nothing is looked at. There
// is none, nil, for an image that could be taken for a flag.
//
// Podman and docker get the same line but for the flags that only one of them
// knows. Nothing is attached to the container's stdin, and no shell is started
// here or there.
func Argv(c Config, spec sandbox.RunSpec, in Instance) []string {
	if _, err := ParseImage(in.Image); err != nil {
		return nil
	}
	argv := []string{c.Binary, "run", "--rm", "--name", ContainerName(spec.Label)}
	argv = append(argv, labels(spec.Label, in.Deadline)...)
	argv = append(argv, "--pull", pullFlag(c.Pull))
	if c.Engine == Podman {
		// A worker that dies leaves its container to conmon, which ends it then.
		argv = append(argv, "--timeout", strconv.FormatInt(int64(in.Lifetime/time.Second), 10))
	}
	argv = append(argv, network(c, in)...)
	argv = append(argv, fileSystem(c, spec, in)...)
	argv = append(argv, walls(c)...)
	argv = append(argv, limits(spec)...)
	argv = append(argv, environment(c)...)
	argv = append(argv, "-w", workDir, "--user", fmt.Sprintf("%d:%d", UID, UID))
	argv = append(argv, quiet(c)...)
	// The agent is the entrypoint and not the command, as which it would be an
	// argument of an entrypoint that the image may have.
	argv = append(argv, "--entrypoint", agent)
	argv = append(argv, c.ExtraArgs...)
	return append(argv, in.Image, "--in", in.In, "--out", in.Out)
}

func pullFlag(p string) string {
	if p == PullIfAbsent {
		return "missing"
	}
	return "never"
}

func network(c Config, in Instance) []string {
	var argv []string
	if in.Network != "" {
		argv = append(argv, "--network", in.Network)
	}
	// The default is the container's id, which tells runs apart for the
	// scanner, and which podman puts into the environment.
	argv = append(argv, "--hostname", hostname)
	argv = append(argv, hosts(c, in)...)
	argv = append(argv, nameServers(c, in)...)
	if !in.Own {
		return argv
	}
	// The pools that the firewall knows are ones of IPv4.
	return append(argv, "--sysctl", "net.ipv6.conf.all.disable_ipv6=1")
}

// hosts are the names that a container can resolve by itself. Podman's own
// /etc/hosts begins with a copy of this host's, whose names are nobody's business
// inside; without it podman takes no --add-host, so that the file is mounted.
func hosts(c Config, in Instance) []string {
	var argv []string
	switch {
	case c.Engine == Docker:
		for _, h := range in.Hosts {
			argv = append(argv, "--add-host", h)
		}
	case in.HostsFile == "":
		argv = append(argv, "--no-hosts")
	default:
		argv = append(argv, "--no-hosts", "-v", in.HostsFile+":/etc/hosts:ro,nosuid,nodev,noexec,Z")
	}
	return argv
}

// nameServers are whom a container asks for names, but on a network of others',
// which has its own. Where there is no network, or one that leads to the storage
// and nowhere else, that is nobody: names would be a way out, and docker's own
// resolver, which can't be switched off, would ask a host's loopback one in this
// host's name. Nor does a container learn this host's resolvers and domains.
func nameServers(c Config, in Instance) []string {
	switch {
	case in.Network != noNetwork && !in.Own, in.Network == noNetwork && c.Engine == Podman:
		return nil
	case len(in.Resolvers) == 0 && c.Engine == Podman:
		return []string{"--dns", "none"}
	}
	addresses := in.Resolvers
	if len(addresses) == 0 {
		addresses = []string{"127.0.0.1"}
	}
	var argv []string
	for _, address := range addresses {
		argv = append(argv, "--dns", address)
	}
	return append(argv, "--dns-search", ".")
}

func fileSystem(c Config, spec sandbox.RunSpec, in Instance) []string {
	argv := []string{"--read-only"}
	if c.Engine == Podman {
		argv = append(argv,
			// Or /tmp, /run and /var/tmp can be written.
			"--read-only-tmpfs=false",
			// What an image calls a volume would be writable.
			"--image-volume", "ignore",
		)
	}
	mb := (spec.Bundle.Policy.MaxBytes + 1<<20 - 1) >> 20
	tmpfs := fmt.Sprintf("%s:rw,nosuid,nodev,size=%dm", workDir, mb)
	// The mount takes after the directory in the image, which docker makes as
	// root's if it is missing. Each engine has its own way to say whose it is.
	if c.Engine == Podman {
		tmpfs += ",U"
	} else {
		tmpfs += fmt.Sprintf(",uid=%d,gid=%d", UID, UID)
	}
	argv = append(argv, "--tmpfs", tmpfs)
	if in.Mount == "" {
		return argv
	}
	options := "rw"
	if c.Engine == Podman {
		// Docker knows none of these; there the directory belongs to the
		// sandbox's uid already.
		options = "rw,nosuid,nodev,U"
	}
	return append(argv, "-v", in.Mount+":"+bundleDir+":"+options)
}

// usernsAuto asks for a user namespace of the container's own, just large enough
// for UID. Without a size podman looks for one in the image, which deadlocks
// when several runs start at once (seen: podman 4.3.1, eight at a time).
var usernsAuto = fmt.Sprintf("auto:size=%d", UID+1)

func walls(c Config) []string {
	argv := []string{
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		// No /dev/shm, a second directory to write. The engine's own seccomp
		// profile needs no flag: both take "seccomp=default" for a file's name.
		"--ipc", "none",
		// Both engines mount one that everybody may make queues in.
		"--tmpfs", "/dev/mqueue:ro,nosuid,nodev,noexec,size=4k",
	}
	if c.Engine == Podman {
		argv = append(argv, "--userns", usernsAuto)
	}
	return argv
}

func limits(spec sandbox.RunSpec) []string {
	memory := strconv.FormatInt(spec.Limits.MemoryMB, 10) + "m"
	return []string{
		"--memory", memory,
		// Or there is as much swap on top.
		"--memory-swap", memory,
		"--pids-limit", strconv.FormatInt(threads(spec.Limits), 10),
		"--cpus", "1",
	}
}

// threads is how many threads a container may have, the agent's included.
func threads(l wire.Limits) int64 { return max(pidsLimit, l.Processes) }

// proxies are what docker's configuration file may put into every container's
// environment, unless the command line names it.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"}

func environment(c Config) []string {
	var argv []string
	switch c.Engine {
	case Podman:
		argv = append(argv, "--unsetenv-all", "--http-proxy=false", "--env-host=false")
	case Docker:
		// A name alone is taken from the client's environment, which has it
		// not (see Config.Env), and then from the container's.
		argv = append(argv, "-e", "HOSTNAME")
		for _, name := range proxies {
			argv = append(argv, "-e", name, "-e", strings.ToLower(name))
		}
	}
	return append(argv, "-e", "HOME="+workDir, "-e", "PATH="+pathEnv)
}

// quiet switches off what an engine does around a container, and nobody reads.
func quiet(c Config) []string {
	argv := []string{"--log-driver", "none", "--no-healthcheck"}
	if c.Engine == Podman {
		argv = append(argv, "--systemd=false", "--sdnotify=ignore", "--passwd=false")
	}
	return argv
}
