package targets

import (
	"context"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Edits of the engine's command line, each of which takes one wall down.
var (
	ociRootWritable = argvEdit{[]string{"--read-only"}, nil}
	ociVariable     = argvEdit{[]string{"-e", "HOME=/work"}, []string{"-e", "HOME=/work", "-e", "LEAKED=1"}}
	ociDefaultNet   = argvEdit{[]string{"--network", "*"}, nil}
	ociNoNewPrivs   = argvEdit{[]string{"--security-opt", "no-new-privileges"}, nil}
	ociUnconfined   = argvEdit{[]string{"--cap-drop", "ALL"}, []string{"--cap-drop", "ALL", "--security-opt", "seccomp=unconfined"}}
	ociSomeCaps     = argvEdit{[]string{"--cap-drop", "ALL"}, []string{"--cap-drop", "ALL", "--cap-add", "DAC_OVERRIDE", "--cap-add", "NET_RAW"}}
	ociHostPIDs     = argvEdit{[]string{"--cap-drop", "ALL"}, []string{"--cap-drop", "ALL", "--pid", "host"}}
	ociHostIPC      = argvEdit{[]string{"--ipc", "none"}, []string{"--ipc", "host"}}
	ociHostName     = argvEdit{[]string{"--hostname", "*"}, []string{"--uts", "host"}}
	ociHostUsers    = argvEdit{[]string{"--userns", "*"}, nil}
	ociNoMemory     = []argvEdit{{[]string{"--memory", "*"}, nil}, {[]string{"--memory-swap", "*"}, nil}}
	ociNoPIDs       = argvEdit{[]string{"--pids-limit", "*"}, []string{"--pids-limit", "8192"}}
	// A root without capabilities could not read what belongs to the sandbox.
	ociAsRoot = []argvEdit{{[]string{"--user", "*"}, []string{"--user", "0:0"}}, ociSomeCaps}
)

// work mounts the work directory in another way, for its owner.
func (b *ociBase) work(options string) argvEdit {
	return argvEdit{[]string{"--tmpfs", "/work:*"}, []string{"--tmpfs", "/work:rw," + options + b.owner()}}
}

// owner is each engine's way to say whose a tmpfs is.
func (b *ociBase) owner() string {
	if b.Engine == oci.Podman {
		return ",U"
	}
	return fmt.Sprintf(",uid=%d,gid=%d", oci.UID, oci.UID)
}

// hostIPC shares the host's IPC namespace, whose message queues nobody of
// another user namespace may mount.
func (b *ociBase) hostIPC() []argvEdit {
	if b.Engine == oci.Podman {
		return []argvEdit{ociHostIPC, ociHostUsers}
	}
	return []argvEdit{ociHostIPC}
}

// hostPIDs shares the host's processes, which no /proc may show in a user
// namespace of one's own.
func (b *ociBase) hostPIDs() []argvEdit {
	if b.Engine == oci.Podman {
		return []argvEdit{ociHostPIDs, ociHostUsers}
	}
	return []argvEdit{ociHostPIDs}
}

// broken makes a runtime and a room in which one assertion must fail.
func (b *ociBase) broken(ctx context.Context, s conformance.Setup, id assertion) (sandbox.Runtime, sandbox.Room, error) {
	how, commands, ok := brokenRoom(id)
	if !ok {
		var err error
		if how.edits, err = b.brokenWall(s, id); err != nil {
			return nil, sandbox.Room{}, err
		}
	}
	r, room, err := b.makeBroken(ctx, s, how)
	room.Commands = append(room.Commands, commands...)
	return r, room, err
}

// brokenWall takes down the wall of the engine's that an assertion is about.
func (b *ociBase) brokenWall(s conformance.Setup, id assertion) ([]argvEdit, error) {
	switch id {
	case wire.AssertNetwork:
		return []argvEdit{ociDefaultNet}, needCanary(s)
	case wire.AssertReadOnlyRoot:
		return []argvEdit{ociRootWritable}, nil
	case wire.AssertWorkDir:
		return []argvEdit{b.work("suid,dev,size=512m")}, nil
	case wire.AssertEnvironment:
		return []argvEdit{ociVariable}, nil
	case wire.AssertUnprivileged:
		return []argvEdit{ociSomeCaps}, nil
	case wire.AssertPIDNamespace:
		return b.hostPIDs(), nil
	case wire.AssertMemory:
		return ociNoMemory, nil
	default:
		return nil, keptPrivileges("an engine is told")
	}
}

// makeBroken makes a runtime with something broken, and the room to probe.
func (b *ociBase) makeBroken(ctx context.Context, s conformance.Setup, how breakage) (sandbox.Runtime, sandbox.Room, error) {
	room, err := b.room(ctx, s, how)
	if err != nil {
		return nil, room, err
	}
	r, err := b.make(ctx, s, how)
	return r, room, err
}

// smuggled are extra_args that take a wall down, as an operator could write
// them. Not among them is an engine without its seccomp profile: the agent's
// filter stands without it, and W110 sees that the engine's is there by default.
func (b *ociBase) smuggled() []conformance.Smuggled {
	lines := [][]string{
		{"--network", "host"},
		{"--network", "bridge"},
		{"--privileged"},
		{"--user", "0:0"},
		{"--user", "0:0", "--cap-add", "DAC_OVERRIDE"},
		{"--read-only=false"},
		{"--pid", "host"},
		{"-e", "AWS_SECRET_ACCESS_KEY=x"},
		{"--env", "DATABASE_URL=x"},
		{"--memory", "8g", "--memory-swap", "8g"},
		{"--tmpfs", "/work:rw,suid,dev,exec" + b.owner()},
		{"--tmpfs", "/usr/bin:rw"},
	}
	if b.Engine == oci.Podman {
		lines = append(lines, []string{"--env-host"}, []string{"--read-only-tmpfs=true"})
	}
	var list []conformance.Smuggled
	for _, extra := range lines {
		list = append(list, conformance.Smuggled{
			Name: fmt.Sprintf("extra_args = %q", extra),
			Make: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, sandbox.Room, error) {
				return b.makeBroken(ctx, s, breakage{extra: extra})
			},
		})
	}
	return list
}
