package probe_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/gate"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
	"github.com/batleforc/batlehub-sandbox/wire"
)

const (
	mounts = `/dev/vda / ext4 ro,nosuid,nodev,relatime 0 0
proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
tmpfs /dev tmpfs ro,nosuid,nodev,relatime,mode=755 0 0
devtmpfs /dev/null devtmpfs rw,nosuid,relatime,mode=755 0 0
mqueue /dev/mqueue mqueue rw,nosuid,nodev 0 0
/dev/vdb /work ext4 rw,nosuid,nodev,relatime 0 0
/dev/vdb /bundle ext4 rw,nosuid,nodev,relatime 0 0
`
	status = `Name:	batlehub-sandbox
Uid:	65532	65532	65532	65532
CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	0000000000000000
CapAmb:	0000000000000000
`
)

// fixture is a room in which every wall stands, with what a test may break.
type fixture struct {
	probe.Room
	manifest *wire.Manifest
	writable []string
}

func (f *fixture) file(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(f.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) proc(t *testing.T, name, content string) {
	t.Helper()
	f.file(t, "/proc/self/"+name, content, 0o644)
}

// namespace names one of the process's namespaces, as "pid:[1]".
func (f *fixture) namespace(t *testing.T, name string) {
	t.Helper()
	kind, _, _ := strings.Cut(name, ":")
	f.link(t, filepath.Join("/proc/self/ns", kind), name)
}

func (f *fixture) link(t *testing.T, path, target string) {
	t.Helper()
	path = filepath.Join(f.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func good(t *testing.T) *fixture {
	t.Helper()
	root := t.TempDir()
	real := probe.Here("/work", "/work", "/usr/local/bin:/usr/bin")
	f := &fixture{
		Room: probe.Room{
			Root: root, Proc: filepath.Join(root, "proc"),
			WorkDir: "/work", Home: "/work", Path: "/usr/local/bin:/usr/bin",
			Environ: []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin", "PWD=/work"},
			EUID:    65532, PID: 2, PPID: 1,
			Network: func(_ context.Context, canaries []netip.AddrPort) []gate.Finding {
				return findings(canaries, gate.Blocked)
			},
			Create: func(path string) error {
				if path == filepath.Join(root, "/usr/bin/.probe") {
					return unix.EROFS
				}
				return real.Create(path)
			},
			MakeDevice: func(string) error { return unix.EPERM },
			Nodename:   "sandbox", Exchanges: []string{"/bundle"},
			Witness: witness(nil),
			Outgrow: outgrown(probe.Outgrown{Stopped: true, TouchedMB: 2040, How: "SIGKILL"}, nil),
			Kills:   kills(0, 1),
		},
		manifest: &wire.Manifest{
			Wire: wire.Version, Limits: wire.DefaultLimits(), Canaries: []string{"192.0.2.1:8080", "1.1.1.1:53"},
			Probe: &wire.ProbeRequest{Commands: []string{"scanner", "/usr/bin/other"}, MemoryWall: true},
		},
		writable: []string{"/work", "/proc", "/dev/mqueue", "/bundle"},
	}
	f.Writable = func(path string) bool {
		return slices.Contains(f.writable, strings.TrimPrefix(path, root))
	}
	f.proc(t, "mounts", mounts)
	f.proc(t, "status", status)
	f.namespace(t, "pid:[4026532999]")
	f.namespace(t, "ipc:[4026532998]")
	f.file(t, "/usr/local/bin/scanner", "one", 0o755)
	f.file(t, "/usr/bin/other", "two", 0o555)
	if err := os.Mkdir(filepath.Join(root, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func findings(canaries []netip.AddrPort, o gate.Outcome) []gate.Finding {
	all := make([]gate.Finding, len(canaries))
	for i, c := range canaries {
		all[i] = gate.Finding{Canary: c, Outcome: o, Detail: c.String() + ": seen"}
	}
	return all
}

func witness(change func(*launch.WitnessReport)) func(context.Context, []string) (launch.WitnessReport, error) {
	return func(context.Context, []string) (launch.WitnessReport, error) {
		r := launch.WitnessReport{
			Seccomp: 2, SeccompFilters: 1, NoNewPrivs: 1, UID: 65532, CanClose: true,
			Denied: map[string]string{"unshare": "EPERM", "clone3": "ENOSYS", "mknodat": "EPERM"},
		}
		if change != nil {
			change(&r)
		}
		return r, nil
	}
}

// kills answers a count each time it is asked, and the last one from then on.
func kills(counts ...int64) func() (int64, bool) {
	return func() (int64, bool) {
		n := counts[0]
		if len(counts) > 1 {
			counts = counts[1:]
		}
		return n, true
	}
}

func outgrown(o probe.Outgrown, err error) func(context.Context, int64) (probe.Outgrown, error) {
	return func(context.Context, int64) (probe.Outgrown, error) { return o, err }
}
