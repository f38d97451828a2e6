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
	var how breakage
	var commands []string
	switch id {
	case wire.AssertResult:
		how.noAgent = true
	case wire.AssertWire:
		how.agent = wireNext
	case wire.AssertNetwork:
		if len(s.Canaries) == 0 {
			return nil, sandbox.Room{}, fmt.Errorf("%w: this host has no address but loopback", conformance.ErrNotBreakable)
		}
		how.edits = []argvEdit{ociDefaultNet}
	case wire.AssertReadOnlyRoot:
		how.edits = []argvEdit{ociRootWritable}
	case wire.AssertWorkDir:
		how.edits = []argvEdit{b.work("suid,dev,size=512m")}
	case wire.AssertEnvironment:
		how.edits = []argvEdit{ociVariable}
	case wire.AssertUnprivileged:
		how.edits = []argvEdit{ociSomeCaps}
	case wire.AssertCredentials:
		how.files = map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/token": "a token"}
	case wire.AssertRoom:
		how.files = map[string]string{"usr/bin/sh": "a shell"}
	case wire.AssertCommand:
		commands = []string{"/usr/bin/another-scanner"}
	case wire.AssertPIDNamespace:
		how.edits = b.hostPIDs()
	case wire.AssertSeccomp:
		how.agent = noFilter
	case wire.AssertMemory:
		how.edits = ociNoMemory
	default:
		return nil, sandbox.Room{}, fmt.Errorf("%w: the agent sets the bit itself, for its filter could not be installed without, whatever an engine is told", conformance.ErrNotBreakable)
	}
	room, err := b.room(ctx, s, how)
	if err != nil {
		return nil, room, err
	}
	room.Commands = append(room.Commands, commands...)
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
				how := breakage{extra: extra}
				room, err := b.room(ctx, s, how)
				if err != nil {
					return nil, room, err
				}
				r, err := b.make(ctx, s, how)
				return r, room, err
			},
		})
	}
	return list
}
