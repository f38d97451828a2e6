package targets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// ErrNotRun is wrapped when a target can't be checked on this host, which says
// nothing about the target.
var ErrNotRun = errors.New("not run")

// crunBase is what all targets over one program share.
type crunBase struct {
	builder *Builder
	// program is the real one, absolute, and flavour its family.
	program string
	flavour crun.Flavour
	self    string
}

// Crun is the runtime over an OCI runtime program, which is a name on PATH or a
// path. self is this program, which is also the worker that the suite kills;
// empty for none.
func Crun(ctx context.Context, b *Builder, program, self string) (*conformance.Target, error) {
	base, version, err := newCrunBase(ctx, b, program, self)
	if err != nil {
		return nil, err
	}
	t := base.target(crunBreakage{})
	t.Versions = map[string]string{string(base.flavour): version}
	t.Broken = base.broken
	t.Mutants = crunMutants(base)
	if self != "" {
		t.Capabilities = append(t.Capabilities, conformance.Worker)
		t.Worker = workerOf(self, base.worker)
	}
	return t, nil
}

func newCrunBase(ctx context.Context, b *Builder, program, self string) (*crunBase, string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: there is no program %q: %w", ErrNotRun, program, err)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, "", fmt.Errorf("%s --version: %w", path, withStderr(err))
	}
	line, _, _ := strings.Cut(string(out), "\n")
	flavour, ok := crun.FlavourOf(line)
	if !ok {
		return nil, "", fmt.Errorf("%s is none of crun, runc and runsc: it calls itself %.64q", path, line)
	}
	_, version, _ := strings.Cut(line, " version ")
	return &crunBase{builder: b, program: path, flavour: flavour, self: self}, strings.TrimSpace(version), crunHost(flavour)
}

// crunHost says why a program can't be run on this host at all.
func crunHost(f crun.Flavour) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: the crun runtime writes user namespaces' maps, mounts and makes cgroups, which takes root", ErrNotRun)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && f == crun.Crun {
		return fmt.Errorf("%w: the program crun works with cgroup v2 alone, and this host's is v1 or both", ErrNotRun)
	}
	return nil
}

// onGVisor says that the sandbox has a kernel of its own, whose processes are
// not this host's.
func (b *crunBase) onGVisor() bool { return b.flavour == crun.Runsc }

// target is a target with something broken, or nothing.
func (b *crunBase) target(broken crunBreakage) *conformance.Target {
	t := &conformance.Target{
		Name: crun.Name + "-" + string(b.flavour),
		Capabilities: []conformance.Capability{
			conformance.Results, conformance.Timeouts, conformance.Walls, conformance.Sweep, conformance.Probe,
			conformance.MemoryWall, conformance.ProcessWall, conformance.WorkWall,
		},
		Versions: map[string]string{},
		Scanner:  scanner,
		New: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return b.make(ctx, s, "rooms", broken)
		},
		Program: inRoom,
		Left:    b.left,
		Room: func(_ context.Context, s conformance.Setup) (sandbox.Room, error) {
			return b.room(s), nil
		},
		Exchange: "/out",
		Bound: map[string][]string{
			"/bundle": b.flags("ro", "nosuid", "nodev", "noexec"), "/out": b.flags("rw", "nosuid", "nodev", "noexec"),
		},
		Masked:    []string{"/proc/keys", "/proc/interrupts", "/proc/timer_list"},
		Orphans:   b.orphans(),
		Reference: newNone,
	}
	if b.onGVisor() {
		t.Opaque, t.Without = true, gvisorLacks
	} else {
		t.Capabilities = append(t.Capabilities, conformance.UserNamespace, conformance.OuterFilter)
	}
	return t
}

// flags are a mount's, without the one that no mount of runsc's has.
func (b *crunBase) flags(names ...string) []string {
	if b.onGVisor() {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "nodev" })
	}
	return names
}

// room is what is probed. Its memory wall is low, for the probe runs into it.
func (b *crunBase) room(s conformance.Setup) sandbox.Room {
	limits := wire.DefaultLimits()
	limits.MemoryMB, limits.AddressSpaceMB = 640, 640
	if b.onGVisor() {
		// Its kernel needs some of it, and takes the agent along when it dies.
		limits.MemoryMB, limits.AddressSpaceMB = 1024, 1024
	}
	room := roomToProbe(s)
	room.Limits = limits
	return room
}

func (b *crunBase) stateDir(s conformance.Setup) string { return filepath.Join(s.Dir, "state") }

func (b *crunBase) bundles(s conformance.Setup) string {
	return filepath.Join(b.stateDir(s), string(b.flavour), "bundles")
}

func (b *crunBase) containers(s conformance.Setup) string {
	return filepath.Join(b.stateDir(s), string(b.flavour), "run")
}

// cgroups is the cgroup below which all runs of a session have theirs.
func (b *crunBase) cgroups(s conformance.Setup) string {
	return filepath.Join("sandbox-conformance-"+s.Token, filepath.Base(s.Dir))
}

// config is the runtime's configuration for a session, over rooms of that name.
func (b *crunBase) config(s conformance.Setup, rooms string) crun.Config {
	return crun.Config{
		Program: b.program, StateDir: b.stateDir(s), Rooms: filepath.Join(s.Dir, rooms),
		CgroupParent: b.cgroups(s), Canaries: s.Canaries, Worker: s.Worker,
	}
}

// make builds a pinned room below the setup's directory, unless it stands, and
// the runtime over it.
func (b *crunBase) make(ctx context.Context, s conformance.Setup, name string, broken crunBreakage) (sandbox.Runtime, error) {
	if broken.inSession != nil {
		broken = broken.inSession(s, broken)
	}
	c := b.config(s, name)
	room := filepath.Join(c.Rooms, scanner)
	if !exists(room) {
		if err := buildRoom(ctx, b.builder, s, room, broken.breakage); err != nil {
			return nil, err
		}
		if _, err := crun.WritePin(ctx, room); err != nil {
			return nil, err
		}
	}
	if broken.changes() {
		c.Program = filepath.Join(s.Dir, name+"-program")
		if err := b.edited(ctx, c.Program, broken); err != nil {
			return nil, err
		}
	}
	r, err := crun.New(c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// edited puts the editor at path, in the program's place.
func (b *crunBase) edited(ctx context.Context, path string, broken crunBreakage) error {
	editor, err := b.builder.configEditor(ctx)
	if err != nil {
		return err
	}
	if err := copyFile(editor, path); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"program": b.program, "edits": broken.config, "limits": broken.limits, "args": broken.args, "ignore": broken.ignore,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path+".json", config, 0o644)
}

// worker is a worker over the rooms that stand in the setup's directory.
func (b *crunBase) worker(s conformance.Setup) workerConfig {
	c := b.config(s, "rooms")
	c.Canaries = nil
	return workerConfig{Crun: &c}
}

// gvisorLacks is what a sandbox of runsc does not hold, and why.
var gvisorLacks = map[string]string{
	"C35":  "gVisor answers EINVAL to every personality but the plain one, which costs no scanner anything but the value itself",
	"W36":  "gVisor's /proc shows the descriptors of a process to its own uid although it is not dumpable, and it has no Landlock to close it",
	"W53":  "gVisor has no Landlock that would close the result's place, a small file system of this run's own, to the scanner",
	"W111": "gVisor has no Landlock that would close bundle and result to the scanner, and both are this run's own",
	"W55":  "no mount of runsc's has nodev: its devices are of its own kernel, and none of the host's can be reached by a node",
	"W56":  "gVisor shows /dev/fuse and /dev/net/tun of its own kernel, for which the scanner lacks the capability and which are nothing of the host's",
	"W67":  "gVisor lets everybody set the priorities and out-of-memory scores of its own kernel, of which the host's scheduler sees nothing",
	"W39":  "gVisor lets a SIGKILL from inside end pid 1, and has no Landlock scope for signals: the run is without an answer then, and never with a false one",
}
