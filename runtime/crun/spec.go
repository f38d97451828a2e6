package crun

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
)

// ociVersion is what runc 1.1 and crun 1.8 read; the types' own is newer.
const ociVersion = "1.0.2"

// The annotations of a sandbox. None has the prefix of any runtime, to which
// it would be an instruction.
const annotations = "io.batlehub.sandbox."

// Spec is the config.json of one sandbox. It is a pure function: nothing on
// the host is looked at. The error says what can't be a sandbox.
func Spec(c Container) (*specs.Spec, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	profile := c.Seccomp
	if profile == nil {
		var err error
		if profile, err = seccomp.Profile(runtime.GOARCH); err != nil {
			return nil, err
		}
		if c.Flavour == Runsc {
			profile = seccomp.ForGVisor(profile)
		}
	}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: c.UsernsBase, Size: usernsSize}}
	return &specs.Spec{
		Version:     ociVersion,
		Hostname:    hostname,
		Process:     c.process(),
		Root:        &specs.Root{Path: c.Room, Readonly: true},
		Mounts:      c.mounts(),
		Annotations: c.annotations(),
		Linux: &specs.Linux{
			Namespaces:        c.namespaces(),
			UIDMappings:       ids,
			GIDMappings:       ids,
			Resources:         c.resources(),
			CgroupsPath:       c.CgroupPath,
			Seccomp:           profile,
			RootfsPropagation: c.propagation(),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/dev/block",
				"/proc/interrupts",
			},
			ReadonlyPaths: []string{
				"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
			},
		},
	}, nil
}

func (c Container) check() error {
	for what, path := range map[string]string{"the room": c.Room, "the result's directory": c.Out, "the cgroup": c.CgroupPath} {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			return fmt.Errorf("%s %q is not a clean absolute path below the root", what, path)
		}
	}
	for _, in := range c.Inputs {
		if !filepath.IsAbs(in.Host) || !filepath.IsAbs(in.Inside) {
			return fmt.Errorf("the input %q at %q is not at an absolute path", in.Host, in.Inside)
		}
	}
	if c.UID == 0 || c.GID == 0 || c.UID >= usernsSize || c.GID >= usernsSize {
		return fmt.Errorf("a sandbox can't run as %d:%d, want ids from 1 to %d", c.UID, c.GID, usernsSize-1)
	}
	if c.Limits.MemoryMB < 1 || c.CPUMilli < minCPUMilli || c.Policy.MaxBytes < 1 || c.Policy.MaxEntries < 1 {
		return fmt.Errorf("a sandbox has to have limits: memory %d MiB, cpu %d/1000 (at least %d), %d bytes and %d entries of scratch space",
			c.Limits.MemoryMB, c.CPUMilli, minCPUMilli, c.Policy.MaxBytes, c.Policy.MaxEntries)
	}
	return checkRange(c.UsernsBase)
}

func (c Container) process() *specs.Process {
	return &specs.Process{
		User: specs.User{UID: c.UID, GID: c.GID},
		Args: []string{
			AgentPath, "--in", "file://" + outDir + "/manifest.json", "--out", "file://" + outDir + "/out.tar",
		},
		Env:             []string{"HOME=" + workDir, "PATH=" + pathEnv},
		Cwd:             workDir,
		Capabilities:    &specs.LinuxCapabilities{},
		Rlimits:         []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: c.openFiles(), Soft: c.openFiles()}},
		NoNewPrivileges: true,
	}
}

func (c Container) openFiles() uint64 {
	if c.Host.OpenFiles > 0 {
		return min(openFiles, c.Host.OpenFiles)
	}
	return openFiles
}

// namespaces are all new ones: an entry with a path would join somebody's.
func (c Container) namespaces() []specs.LinuxNamespace {
	types := []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.MountNamespace, specs.NetworkNamespace, specs.UTSNamespace, specs.UserNamespace,
	}
	if c.Host.IPC {
		types = append(types, specs.IPCNamespace)
	}
	if c.Host.CgroupNS {
		types = append(types, specs.CgroupNamespace)
	}
	var list []specs.LinuxNamespace
	for _, t := range types {
		list = append(list, specs.LinuxNamespace{Type: t})
	}
	return list
}

// propagation keeps mounts in the sandbox. runc refuses "private" where it may
// not pivot.
func (c Container) propagation() string {
	if c.Flavour == Runc && c.Host.Ramdisk {
		return "rslave"
	}
	return "private"
}

func (c Container) resources() *specs.LinuxResources {
	memory := c.Limits.MemoryMB << 20
	quota, period := c.CPUMilli*(cpuPeriod/1000), uint64(cpuPeriod)
	r := &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &memory},
		CPU:    &specs.LinuxCPU{Quota: &quota, Period: &period},
		Pids:   &specs.LinuxPids{Limit: new(c.pids())},
	}
	if c.Host.Swap {
		// Memory and swap together: no swap.
		r.Memory.Swap = &memory
	}
	return r
}

// pids is the number of threads that a sandbox may have, the agent's included.
func (c Container) pids() int64 {
	if c.Limits.Processes > 0 {
		return c.Limits.Processes
	}
	return defaultPids
}

func (c Container) annotations() map[string]string {
	return map[string]string{
		annotations + "worker":   c.Label.Worker,
		annotations + "job":      c.Label.Job,
		annotations + "scanner":  c.Label.Scanner,
		annotations + "attempt":  strconv.Itoa(c.Label.Attempt),
		annotations + "deadline": c.Deadline.UTC().Format(time.RFC3339),
	}
}

// document is a specification as it is written: every capability set is there
// and empty, where an absent one would be left to the runtime.
type document struct {
	*specs.Spec
	Process documentProcess `json:"process"`
}

type documentProcess struct {
	*specs.Process
	Terminal     bool           `json:"terminal"`
	Capabilities capabilitySets `json:"capabilities"`
}

type capabilitySets struct {
	Bounding    []string `json:"bounding"`
	Effective   []string `json:"effective"`
	Inheritable []string `json:"inheritable"`
	Permitted   []string `json:"permitted"`
	Ambient     []string `json:"ambient"`
}

// Encode is a specification of Spec as config.json.
func Encode(s *specs.Spec) ([]byte, error) {
	none := []string{}
	b, err := json.MarshalIndent(document{
		Spec:    s,
		Process: documentProcess{Process: s.Process, Capabilities: capabilitySets{none, none, none, none, none}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding config.json: %w", err)
	}
	return append(b, '\n'), nil
}
