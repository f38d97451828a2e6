package targets

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// crunBreakage is what is wrong with one program of the suite's, its room or
// its agent.
type crunBreakage struct {
	breakage
	// config are edits of config.json.
	config []configEdit
	// limits are written to the run's cgroups.
	limits []cgroupLimit
	// args are arguments of the program, and what stands in their place.
	args map[string]string
	// inSession completes it for a session, where directories of its are told.
	inSession func(conformance.Setup, crunBreakage) crunBreakage
}

func (b crunBreakage) changes() bool {
	return len(b.config)+len(b.limits)+len(b.ignore)+len(b.args) > 0
}

// configEdit changes one place of config.json: see the command configedit.
type configEdit struct {
	At     []string `json:"at"`
	Set    any      `json:"set"`
	Append any      `json:"append,omitempty"`
}

type cgroupLimit struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

func setConfig(value any, at ...string) configEdit { return configEdit{At: at, Set: value} }
func without(at ...string) configEdit              { return configEdit{At: at} }
func addMount(kind, from, to string, options ...string) configEdit {
	return configEdit{At: []string{"mounts"}, Append: map[string]any{"destination": to, "type": kind, "source": from, "options": options}}
}

func mountOptions(destination string, options ...string) configEdit {
	return setConfig(options, "mounts", "@destination="+destination, "options")
}

func withoutNamespace(kind string) configEdit { return without("linux", "namespaces", "@type="+kind) }

// Edits of config.json, each of which takes one wall down.
var (
	crunRootWritable = setConfig(false, "root", "readonly")
	crunVariable     = setConfig([]string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin", "LEAKED=1"}, "process", "env")
	crunWorkFlags    = mountOptions("/work", "rw", "size=512m", "mode=1777")
	crunWorkSize     = mountOptions("/work", "rw", "mode=1777", "noexec", "nosuid", "nodev")
	crunNoNewPrivs   = setConfig(false, "process", "noNewPrivileges")
	crunUnconfined   = without("linux", "seccomp")
	crunHostIPC      = withoutNamespace("ipc")
	crunHostNetwork  = withoutNamespace("network")
	crunHostName     = []configEdit{withoutNamespace("uts"), without("hostname")}
	// Nobody may mount a /proc without a pid namespace of one's own.
	crunHostPIDs = []configEdit{
		withoutNamespace("pid"), setConfig("bind", "mounts", "@destination=/proc", "type"),
		setConfig("/proc", "mounts", "@destination=/proc", "source"), mountOptions("/proc", "rbind", "nosuid", "noexec", "nodev"),
	}
	// Whoever is inside is then who he was outside.
	crunHostUsers = []configEdit{
		withoutNamespace("user"), without("linux", "uidMappings"), without("linux", "gidMappings"),
		setConfig(crun.DefaultUsernsBase+crun.DefaultUID, "process", "user", "uid"),
		setConfig(crun.DefaultUsernsBase+crun.DefaultUID, "process", "user", "gid"),
	}
	crunCapabilities = someCapabilities("CAP_NET_RAW", "CAP_DAC_OVERRIDE")
	// A root without capabilities could not read what belongs to the sandbox.
	crunAsRoot = append(someCapabilities("CAP_DAC_OVERRIDE"), setConfig(0, "process", "user", "uid"), setConfig(0, "process", "user", "gid"))
	crunNoMask = without("linux", "maskedPaths")

	crunNoMemory = crunBreakage{
		config: []configEdit{without("linux", "resources", "memory")},
		limits: []cgroupLimit{
			{"memory.max", "max"},
			{"memory.swap.max", "max"},
			{"memory.memsw.limit_in_bytes", "-1"},
			{"memory.limit_in_bytes", "-1"},
		},
	}
	crunNoPIDs = crunBreakage{
		breakage: breakage{agent: noProcesses},
		config:   []configEdit{without("linux", "resources", "pids")},
		limits:   []cgroupLimit{{"pids.max", "max"}},
	}
)

// hostNetwork shares the host's network, of which gVisor has to be told apart.
func (b *crunBase) hostNetwork() crunBreakage {
	how := crunBreakage{config: []configEdit{crunHostNetwork}}
	if b.onGVisor() {
		how.args = map[string]string{"--network=none": "--network=host"}
	}
	return how
}

// noProcesses is an agent that bounds no number of processes itself.
var noProcesses = []Edit{{"agent/internal/launch/stage/limits.go", "{unix.RLIMIT_NPROC, job.Processes, 0},", "{unix.RLIMIT_NPROC, -1 + 0*job.Processes, 0},"}}

func someCapabilities(names ...string) []configEdit {
	var edits []configEdit
	for _, set := range []string{"bounding", "effective", "inheritable", "permitted", "ambient"} {
		edits = append(edits, setConfig(names, "process", "capabilities", set))
	}
	return edits
}

// gvisorKeeps are assertions that can't be broken alone over runsc.
var gvisorKeeps = map[assertion]string{
	wire.AssertPIDNamespace: "gVisor has no process of the host's to show, whatever its configuration says",
	wire.AssertSeccomp:      "without nodev it is the filter that keeps device nodes away, so that one-writable-dir falls with it",
}

// broken makes a runtime and a room in which one assertion must fail.
func (b *crunBase) broken(ctx context.Context, s conformance.Setup, id assertion) (sandbox.Runtime, sandbox.Room, error) {
	room := b.room(s)
	if reason, ok := gvisorKeeps[id]; ok && b.onGVisor() {
		return nil, room, unbreakable(reason)
	}
	inRoom, commands, ok := brokenRoom(id)
	how := crunBreakage{breakage: inRoom}
	if !ok {
		var err error
		if how, err = b.brokenWall(s, id); err != nil {
			return nil, room, err
		}
	}
	room.Commands = append(room.Commands, commands...)
	r, err := b.make(ctx, s, "broken-"+string(id), how)
	return r, room, err
}

// brokenWall takes down the wall of the program's that an assertion is about.
func (b *crunBase) brokenWall(s conformance.Setup, id assertion) (crunBreakage, error) {
	edited := func(edits ...configEdit) (crunBreakage, error) { return crunBreakage{config: edits}, nil }
	switch id {
	case wire.AssertNetwork:
		return b.hostNetwork(), needCanary(s)
	case wire.AssertReadOnlyRoot:
		return edited(crunRootWritable)
	case wire.AssertWorkDir:
		return edited(crunWorkFlags)
	case wire.AssertEnvironment:
		return edited(crunVariable)
	case wire.AssertUnprivileged:
		return edited(crunCapabilities...)
	case wire.AssertPIDNamespace:
		return edited(crunHostPIDs...)
	case wire.AssertMemory:
		return crunNoMemory, nil
	default:
		return crunBreakage{}, keptPrivileges("a program is told")
	}
}
