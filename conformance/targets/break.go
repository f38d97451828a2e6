package targets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

type assertion = wire.AssertionID

// Edits of bwrap's command line, each of which takes one wall down.
var (
	shareNetwork = argvEdit{[]string{"--unshare-user"}, []string{"--unshare-user", "--share-net"}}
	writableRoot = argvEdit{[]string{"--ro-bind", "*", "/"}, []string{"--bind", "$1", "/"}}
	deviceWork   = argvEdit{[]string{"--bind", "*", "/work"}, []string{"--dev-bind", "$1", "/work"}}
	leakVariable = argvEdit{[]string{"--clearenv"}, []string{"--clearenv", "--setenv", "LEAKED", "1"}}
	asRoot       = argvEdit{[]string{"--uid", "*"}, []string{"--uid", "0"}}
	allCaps      = argvEdit{[]string{"--cap-drop", "ALL"}, []string{"--cap-add", "ALL"}}
	noDeathWish  = argvEdit{[]string{"--die-with-parent"}, nil}
	// Without a pid namespace of its own nobody may mount a /proc.
	sharePIDs = []argvEdit{
		{[]string{"--unshare-all"}, []string{"--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"}},
		{[]string{"--as-pid-1"}, nil},
		{[]string{"--proc", "/proc"}, []string{"--ro-bind", "/proc", "/proc"}},
	}
	shareIPC = argvEdit{[]string{"--unshare-all"}, []string{"--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"}}
	shareUTS = []argvEdit{
		{[]string{"--unshare-all"}, []string{"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-cgroup-try"}},
		{[]string{"--hostname", "*"}, nil},
	}
	hostPrograms = argvEdit{[]string{"--proc", "/proc"}, []string{"--ro-bind", "/usr/bin", "/usr/bin", "--proc", "/proc"}}
)

// Edits of the agent's source, each of which leaves one thing out.
var (
	noFilter = []Edit{{"agent/internal/launch/stage/child.go", "!o.call(StepFilter,", "StepFilter == 0 && !o.call(StepFilter,"}}
	// What the domain keeps as well, a mutant takes down with its own wall.
	noScope  = []Edit{{"agent/internal/launch/stage/child.go", "if o.domain != noDomain && !o.call(StepScope,", "if StepScope == 0 && o.domain != noDomain && !o.call(StepScope,"}}
	noGate   = []Edit{{"agent/run.go", "if err := gate.wait(); err != nil {", "if err := gate.wait(); err != nil && false {"}}
	wireNext = []Edit{{"wire/caps.go", "const Version = 1", "const Version = 2"}}
)

// broken makes a runtime and a room in which one assertion must fail.
func broken(ctx context.Context, b *Builder, s conformance.Setup, id assertion) (sandbox.Runtime, sandbox.Room, error) {
	where := roomToProbe(s)
	how, commands, ok := brokenRoom(id)
	if !ok {
		var err error
		if how, err = brokenBwrap(s, id); err != nil {
			return nil, where, err
		}
	}
	where.Commands = append(where.Commands, commands...)
	r, err := makeBwrap(ctx, b, s, "broken-"+string(id), how)
	return r, where, err
}

// brokenBwrap takes down the wall of bwrap's that an assertion is about.
func brokenBwrap(s conformance.Setup, id assertion) (breakage, error) {
	edited := func(edits ...argvEdit) (breakage, error) { return breakage{edits: edits}, nil }
	switch id {
	case wire.AssertNetwork:
		return breakage{edits: []argvEdit{shareNetwork}}, needCanary(s)
	case wire.AssertReadOnlyRoot:
		return breakage{edits: []argvEdit{writableRoot}, closed: true}, nil
	case wire.AssertWorkDir:
		return edited(deviceWork)
	case wire.AssertEnvironment:
		return edited(leakVariable)
	case wire.AssertUnprivileged:
		return edited(asRoot)
	case wire.AssertPIDNamespace:
		return edited(sharePIDs...)
	case wire.AssertNoNewPrivs:
		proc, err := procWithoutPrivilegeBit(s.Dir)
		return breakage{edits: []argvEdit{{[]string{"--proc", "/proc"}, []string{"--ro-bind", proc, "/proc"}}}}, err
	default:
		return breakage{}, unbreakable("bubblewrap has no such wall")
	}
}

// procWithoutPrivilegeBit makes a directory that stands for /proc and says that
// no_new_privs is off. bubblewrap sets the bit itself, for good, so that no
// command line of its can leave it out; what the kernel says of it can be
// covered, and everything else that a probe reads there is as it should be.
func procWithoutPrivilegeBit(dir string) (string, error) {
	proc := filepath.Join(dir, "proc-without-bit")
	if err := os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755); err != nil {
		return "", err
	}
	status := fmt.Sprintf("Name:\tbatlehub-sandbox\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", bwrap.UID) +
		"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n" +
		"NoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	mounts := "room / ext4 ro,nosuid,nodev,relatime 0 0\nproc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n" +
		"tmpfs /dev tmpfs ro,nosuid,nodev,relatime 0 0\nwork /work ext4 rw,nosuid,nodev,relatime 0 0\n"
	for name, content := range map[string]string{"status": status, "mounts": mounts} {
		if err := os.WriteFile(filepath.Join(proc, "self", name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	for name, target := range map[string]string{"exe": "/" + room.AgentPath, "ns/pid": "pid:[4026532000]"} {
		link := filepath.Join(proc, "self", name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(target, link); err != nil {
			return "", err
		}
	}
	return proc, nil
}
