package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/gate"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestEveryAssertionButTheResultIsMadeInOrderAndHoldsInAGoodRoom(t *testing.T) {
	f := good(t)
	got := probe.Run(t.Context(), f.manifest, f.Room)
	want := wire.Assertions[1:]
	if wire.Assertions[0] != wire.AssertResult || len(got.Verdicts) != len(want) {
		t.Fatalf("%d verdicts, want %d", len(got.Verdicts), len(want))
	}
	for i, v := range got.Verdicts {
		if v.ID != want[i] || v.Outcome != wire.Pass || v.Detail == "" {
			t.Errorf("verdict %d is %+v, want %s to pass", i, v, want[i])
		}
	}
	if got.UID != 65532 {
		t.Errorf("the uid is %d", got.UID)
	}
}

// broken is a room with one wall down, and what the probe must say of it.
type broken struct {
	name    string
	down    func(*testing.T, *fixture)
	id      wire.AssertionID
	outcome wire.Outcome
	detail  string // a part of it
}

func create(file string, err error) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) {
		real := f.Create
		f.Create = func(path string) error {
			if path == filepath.Join(f.Root, file) {
				return err
			}
			return real(path)
		}
	}
}

func network(o gate.Outcome, only string) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) {
		f.Network = func(_ context.Context, canaries []netip.AddrPort) []gate.Finding {
			all := findings(canaries, gate.Blocked)
			for i := range all {
				if all[i].Canary.String() == only {
					all[i].Outcome = o
				}
			}
			return all
		}
	}
}

func inMounts(old, new string) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		if !strings.Contains(mounts, old) {
			t.Fatalf("no mount has %q", old)
		}
		f.proc(t, "mounts", strings.Replace(mounts, old, new, 1))
	}
}

func inStatus(old, new string) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		if !strings.Contains(status, old) {
			t.Fatalf("the status has no %q", old)
		}
		f.proc(t, "status", strings.Replace(status, old, new, 1))
	}
}

func environ(entries ...string) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) { f.Environ = entries }
}

func extra(entries ...string) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) { f.Environ = append(f.Environ, entries...) }
}

func child(change func(*launch.WitnessReport)) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) { f.Witness = witness(change) }
}

func pids(pid, ppid int) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) { f.PID, f.PPID = pid, ppid }
}

func also(path string) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) { f.writable = append(f.writable, path) }
}

func both(a, b func(*testing.T, *fixture)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { a(t, f); b(t, f) }
}

func command(path, content string, mode os.FileMode) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { f.file(t, path, content, mode) }
}

// otherDevice is a device of this machine that not every program may have.
func otherDevice(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/dev/kmsg", "/dev/mem", "/dev/loop-control", "/dev/rtc0", "/dev/vda"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeDevice != 0 {
			return path
		}
	}
	t.Skip("not run: this machine shows only harmless devices")
	return ""
}

// ownKernel is a room in a kernel that has no nodev, which says made to who makes
// a device.
func ownKernel(made error, change func(*launch.WitnessReport)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		inMounts("/work ext4 rw,nosuid,nodev", "/work ext4 rw,nosuid")(t, f)
		f.manifest.Probe.OwnKernel = true
		f.MakeDevice = func(string) error { return made }
		f.Witness = witness(change)
	}
}

// pod is a room whose work directory a kubelet mounted, in a process that can or
// can't gain privileges, where made is said to who makes a device.
func pod(noNewPrivs string, made error) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		inMounts("/work ext4 rw,nosuid,nodev", "/work tmpfs rw")(t, f)
		f.manifest.Probe.KubernetesEnv = true
		f.MakeDevice = func(string) error { return made }
		status, err := os.ReadFile(filepath.Join(f.Proc, "self/status"))
		if err != nil {
			t.Fatal(err)
		}
		f.proc(t, "status", string(status)+"NoNewPrivs:\t"+noNewPrivs+"\n")
	}
}

// log adds a pod's termination log, of which the witness says open.
func log(open string, canClose bool) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) {
		f.Exchanges = append(f.Exchanges, probe.TerminationLog)
		f.Witness = witness(func(r *launch.WitnessReport) {
			r.CanClose = canClose
			if open != "" {
				r.Open = map[string]string{probe.TerminationLog: open}
			}
		})
	}
}

const path = "PATH=/usr/local/bin:/usr/bin"

var rooms = []broken{
	{"another wire version", func(_ *testing.T, f *fixture) { f.manifest.Wire = 99 }, wire.AssertWire, wire.Fail, "wire version 99"},

	{"an open canary", network(gate.Open, "1.1.1.1:53"), wire.AssertNetwork, wire.Fail, "open: 1.1.1.1:53"},
	{"a canary that refuses", network(gate.Refused, "192.0.2.1:8080"), wire.AssertNetwork, wire.Fail, "refused-by-canary: 192.0.2.1:8080"},
	{"a canary that could not be tried", network(gate.Unknown, "192.0.2.1:8080"), wire.AssertNetwork, wire.Fail, "unknown: 192.0.2.1:8080"},
	{"no finding for a canary", func(_ *testing.T, f *fixture) {
		f.Network = func(context.Context, []netip.AddrPort) []gate.Finding { return nil }
	}, wire.AssertNetwork, wire.Fail, ""},
	{"no canary", func(_ *testing.T, f *fixture) { f.manifest.Canaries = nil }, wire.AssertNetwork, wire.Fail, "no canary"},
	{"a name as a canary", func(_ *testing.T, f *fixture) { f.manifest.Canaries[0] = "example.org:80" }, wire.AssertNetwork, wire.Fail, "not an ip:port"},
	{"loopback as a canary", func(_ *testing.T, f *fixture) { f.manifest.Canaries[0] = "127.0.0.1:80" }, wire.AssertNetwork, wire.Fail, "could route to"},

	{"a writable root", create("/usr/bin/.probe", nil), wire.AssertReadOnlyRoot, wire.Fail, "could be opened for writing"},
	{"a root kept by permissions alone", both(create("/usr/bin/.probe", unix.EACCES), inMounts("/ ext4 ro", "/ ext4 rw")), wire.AssertReadOnlyRoot, wire.Fail, "permission denied, want read-only file system, and no mount there is ro"},
	{"programs on a writable mount of their own", both(create("/usr/bin/.probe", unix.EACCES), inMounts("/dev/vdb /work", "/dev/vdc /usr ext4 rw 0 0\n/dev/vdb /work")), wire.AssertReadOnlyRoot, wire.Fail, "no mount there is ro"},
	{"a writable root over a read-only mount", both(create("/usr/bin/.probe", unix.EACCES), inMounts("/dev/vdb /work", "/dev/vdc /usr ext4 ro 0 0\n/dev/vdd / ext4 rw 0 0\n/dev/vdb /work")), wire.AssertReadOnlyRoot, wire.Fail, "no mount there is ro"},
	{"a root that no mount can be seen of", both(create("/usr/bin/.probe", unix.EACCES), inMounts("/dev/vda / ", "/dev/vda /other ")), wire.AssertReadOnlyRoot, wire.Fail, "no mount there is ro"},
	{"a room without /usr/bin", create("/usr/bin/.probe", unix.ENOENT), wire.AssertReadOnlyRoot, wire.Fail, "no directory /usr/bin"},

	{"a work directory that can't be written", create("/work/.probe", unix.EACCES), wire.AssertWorkDir, wire.Fail, "/work can't be written: permission denied"},
	{"a full work directory", create("/work/.probe", unix.ENOSPC), wire.AssertWorkDir, wire.Fail, "no space left"},
	{"a work directory without nosuid", inMounts("/work ext4 rw,nosuid,nodev", "/work ext4 rw,nodev"), wire.AssertWorkDir, wire.Fail, "without nosuid"},
	{"a work directory without nodev", inMounts("/work ext4 rw,nosuid,nodev", "/work ext4 rw,nosuid"), wire.AssertWorkDir, wire.Fail, "without nodev"},
	{"a kernel without nodev that lets devices be made", ownKernel(nil, nil), wire.AssertWorkDir, wire.Fail, "making a device in /work answered ok"},
	{"a kernel without nodev in which a device is refused for another reason", ownKernel(unix.ENOSPC, nil), wire.AssertWorkDir, wire.Fail, "no space left on device, want operation not permitted"},
	{"a kernel without nodev whose scanner's call is the kernel's to answer", ownKernel(unix.EPERM, func(r *launch.WitnessReport) { delete(r.Denied, "mknodat") }), wire.AssertWorkDir, wire.Fail, "a scanner's mknodat answered , want EPERM"},
	{"a kernel without nodev that has not even nosuid", both(ownKernel(unix.EPERM, nil), inMounts("/work ext4 rw,nosuid,nodev", "/work ext4 rw")), wire.AssertWorkDir, wire.Fail, "without nosuid"},
	{"a host's device in a kernel of its own", both(ownKernel(unix.EPERM, nil), func(t *testing.T, f *fixture) {
		f.link(t, "/dev/kvm", otherDevice(t))
		f.writable = append(f.writable, "/dev/kvm")
	}), wire.AssertWorkDir, wire.Fail, "/dev/kvm (device)"},
	{"a pod's work directory in a process that can gain privileges", pod("0", unix.EPERM), wire.AssertWorkDir, wire.Fail, "the agent has NoNewPrivs: 0, want 1"},
	{"a pod's work directory in which devices can be made", pod("1", nil), wire.AssertWorkDir, wire.Fail, "making a device in /work answered ok"},
	{"a termination log that a scanner can write", log("create answered ok", true), wire.AssertWorkDir, wire.Fail, "/dev/termination-log (to a scanner there create answered ok)"},
	{"a second mount over the work directory", inMounts("/dev/vdb /work", "/dev/vdb /work ext4 rw,nosuid,nodev 0 0\n/dev/vdc /work xfs rw 0 0\ntmpfs /elsewhere"), wire.AssertWorkDir, wire.Fail, "without nosuid"},
	{"a work directory that is no mount", inMounts("/dev/vdb /work ", "/dev/vdb /workdir "), wire.AssertWorkDir, wire.Fail, "not a mount of its own"},
	{"a second writable directory", both(inMounts("/dev/vdb /work", "tmpfs /tmp tmpfs rw,nosuid,nodev 0 0\n/dev/vdb /work"), also("/tmp")), wire.AssertWorkDir, wire.Fail, "written too: /tmp (tmpfs)"},
	{"a writable directory with a blank in its name", both(inMounts("/dev/vdb /work", "/dev/vdc /a\\040b ext4 rw 0 0\n/dev/vdb /work"), also("/a b")), wire.AssertWorkDir, wire.Fail, "written too: /a b (ext4)"},
	{"a writable file of the host's", both(inMounts("/dev/vdb /work", "/dev/vda /etc/hosts ext4 rw 0 0\n/dev/vdb /work"), also("/etc/hosts")), wire.AssertWorkDir, wire.Fail, "/etc/hosts (ext4)"},
	{"writable kernel tunables", both(inMounts("/dev/vdb /work", "sysfs /sys sysfs rw 0 0\n/dev/vdb /work"), also("/sys")), wire.AssertWorkDir, wire.Fail, "/sys (sysfs)"},
	{"shared memory", both(inMounts("/dev/vdb /work", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n/dev/vdb /work"), also("/dev/shm")), wire.AssertWorkDir, wire.Fail, "/dev/shm (tmpfs)"},
	{"the machine's message queues", func(t *testing.T, f *fixture) { f.namespace(t, "ipc:[4026531839]") }, wire.AssertWorkDir, wire.Fail, "/dev/mqueue (mqueue)"},
	{"a host's device", func(t *testing.T, f *fixture) {
		f.link(t, "/dev/kvm", otherDevice(t))
		f.writable = append(f.writable, "/dev/kvm")
	}, wire.AssertWorkDir, wire.Fail, "/dev/kvm (device)"},
	{"no list of mounts", func(t *testing.T, f *fixture) { f.proc(t, "mounts", "") }, wire.AssertWorkDir, wire.Fail, "reading the mounts"},

	{"one variable more", extra("LANG=C"), wire.AssertEnvironment, wire.Fail, "also holds LANG"},
	{"a kubelet's variables elsewhere", extra("KUBERNETES_SERVICE_HOST=10.0.0.1"), wire.AssertEnvironment, wire.Fail, "KUBERNETES_SERVICE_HOST"},
	{"another PATH", environ("HOME=/work", "PATH=/bin"), wire.AssertEnvironment, wire.Fail, "PATH"},
	{"another HOME", environ("HOME=/root", path), wire.AssertEnvironment, wire.Fail, "HOME"},
	{"a second PATH", extra(path), wire.AssertEnvironment, wire.Fail, "PATH twice"},
	{"another PWD", environ("HOME=/work", path, "PWD=/"), wire.AssertEnvironment, wire.Fail, "PWD"},
	{"no PATH", environ("HOME=/work"), wire.AssertEnvironment, wire.Fail, "want HOME and PATH"},
	{"an empty environment", environ(), wire.AssertEnvironment, wire.Fail, "want HOME and PATH"},
	{"an entry without a name", extra("=x"), wire.AssertEnvironment, wire.Fail, "also holds"},

	{"uid 0", func(_ *testing.T, f *fixture) { f.EUID = 0 }, wire.AssertUnprivileged, wire.Fail, "effective uid is 0"},
	{"a saved uid of 0", inStatus("65532	65532	65532	65532", "65532	65532	0	65532"), wire.AssertUnprivileged, wire.Fail, "one of the uids is 0"},
	{"the machine's root under another name", also("/proc/sys/kernel/core_pattern"), wire.AssertUnprivileged, wire.Fail, "machine's uid 0"},
	{"an effective capability", inStatus("CapEff:	0000000000000000", "CapEff:	0000000000000001"), wire.AssertUnprivileged, wire.Fail, "CapEff is 0000000000000001"},
	{"a permitted capability", inStatus("CapPrm:	0000000000000000", "CapPrm:	0000000000200000"), wire.AssertUnprivileged, wire.Fail, "CapPrm"},
	{"an inheritable capability", inStatus("CapInh:	0000000000000000", "CapInh:	0000000000000400"), wire.AssertUnprivileged, wire.Fail, "CapInh"},
	{"an ambient capability", inStatus("CapAmb:	0000000000000000", "CapAmb:	0000000000000400"), wire.AssertUnprivileged, wire.Fail, "CapAmb"},
	{"no word on capabilities", inStatus("CapEff:	0000000000000000\n", ""), wire.AssertUnprivileged, wire.Fail, "does not show CapEff"},

	{"a service account token", command("/var/run/secrets/kubernetes.io/serviceaccount/token", "secret", 0o600), wire.AssertCredentials, wire.Fail, "serviceaccount/token exists"},
	{"a token under /run", command("/run/secrets/kubernetes.io/serviceaccount/token", "secret", 0), wire.AssertCredentials, wire.Fail, "/run/secrets"},

	{"sh on PATH", command("/usr/bin/sh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/sh"},
	{"bash on PATH", command("/usr/local/bin/bash", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/local/bin/bash"},
	{"busybox on PATH", command("/usr/bin/busybox", "", 0o644), wire.AssertRoom, wire.Fail, "busybox"},
	{"dash on PATH", command("/usr/bin/dash", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/dash"},
	{"ash on PATH", command("/usr/bin/ash", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/ash"},
	{"zsh on PATH", command("/usr/bin/zsh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/zsh"},
	{"ksh on PATH", command("/usr/bin/ksh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/ksh"},
	{"mksh on PATH", command("/usr/bin/mksh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/mksh"},
	{"csh on PATH", command("/usr/bin/csh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/csh"},
	{"tcsh on PATH", command("/usr/bin/tcsh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/tcsh"},
	{"fish on PATH", command("/usr/bin/fish", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/fish"},
	{"rbash on PATH", command("/usr/bin/rbash", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/rbash"},
	{"toybox on PATH", command("/usr/bin/toybox", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/toybox"},
	{"pwsh on PATH", command("/usr/bin/pwsh", "", 0o755), wire.AssertRoom, wire.Fail, "/usr/bin/pwsh"},
	{"batlehub on PATH", command("/usr/bin/batlehub", "", 0o755), wire.AssertRoom, wire.Fail, "batlehub"},
	{"sandboxctl on PATH", command("/usr/bin/sandboxctl", "", 0o755), wire.AssertRoom, wire.Fail, "sandboxctl"},
	{"a shell in the worker's own room", both(command("/usr/bin/sh", "", 0o755), func(_ *testing.T, f *fixture) { f.manifest.Probe.WorkerRoom = true }), wire.AssertRoom, wire.Warn, "worker's own image and has /usr/bin/sh"},

	{"a command of another room", func(_ *testing.T, f *fixture) { f.manifest.Probe.Commands = []string{"guarddog"} }, wire.AssertCommand, wire.Fail, "guarddog is not on"},
	{"an absolute command that is missing", func(_ *testing.T, f *fixture) { f.manifest.Probe.Commands = []string{"/opt/x"} }, wire.AssertCommand, wire.Fail, "/opt/x: no such file"},
	{"a command that can't be executed", command("/usr/local/bin/scanner", "one", 0o644), wire.AssertCommand, wire.Fail, "/usr/local/bin/scanner can't be executed"},
	{"a directory for a command", func(t *testing.T, f *fixture) {
		f.manifest.Probe.Commands = []string{"dir"}
		f.file(t, "/usr/bin/dir/file", "", 0o755)
	}, wire.AssertCommand, wire.Fail, "not a regular file"},
	{"a FIFO for a command", func(t *testing.T, f *fixture) {
		f.manifest.Probe.Commands = []string{"/usr/bin/fifo"}
		if err := unix.Mkfifo(filepath.Join(f.Root, "/usr/bin/fifo"), 0o755); err != nil {
			t.Fatal(err)
		}
	}, wire.AssertCommand, wire.Fail, "not a regular file"},
	{"no command to look for", func(_ *testing.T, f *fixture) { f.manifest.Probe.Commands = nil }, wire.AssertCommand, wire.NotClaimed, "lists no command"},

	{"the host's processes", pids(4711, 4710), wire.AssertPIDNamespace, wire.Fail, "pid 4711, a child of pid 4710"},
	{"a parent outside the namespace", pids(7, 0), wire.AssertPIDNamespace, wire.Fail, "a child of pid 0"},
	{"an orphan on the host", func(t *testing.T, f *fixture) { f.namespace(t, "pid:[4026531836]") }, wire.AssertPIDNamespace, wire.Fail, "machine's own pid 1"},

	{"a container with Docker's own capabilities", inStatus("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb"), wire.AssertUnprivileged, wire.Fail, "a80425fb"},
	{"one capability added", inStatus("CapBnd:\t0000000000000000", "CapBnd:\t0000000000001000"), wire.AssertUnprivileged, wire.Fail, "capabilities to give"},
	{"a bounding set that can't be seen", inStatus("CapBnd:\t0000000000000000\n", ""), wire.AssertUnprivileged, wire.Fail, "bounding set"},
	{"a bundle's directory that a scanner can fill", child(func(r *launch.WitnessReport) { r.Open = map[string]string{"/bundle": "create answered ok"} }), wire.AssertWorkDir, wire.Fail, "/bundle (to a scanner there create answered ok)"},
	{"a second directory like the bundle's", both(inMounts("/dev/vdb /bundle ext4 rw", "/dev/vdb /bundle2 ext4 rw"), also("/bundle2")), wire.AssertWorkDir, wire.Fail, "/bundle2 (ext4)"},
	{"another machine's name", extra("HOSTNAME=worker-7"), wire.AssertEnvironment, wire.Fail, "HOSTNAME twice or of another value"},
	{"the machine's name twice", extra("HOSTNAME=sandbox", "HOSTNAME=sandbox"), wire.AssertEnvironment, wire.Fail, "HOSTNAME twice"},

	{"no filter", child(func(r *launch.WitnessReport) { r.Seccomp = 0 }), wire.AssertSeccomp, wire.Fail, "Seccomp: 0"},
	{"strict mode", child(func(r *launch.WitnessReport) { r.Seccomp = 1 }), wire.AssertSeccomp, wire.Fail, "Seccomp: 1"},
	{"a call that goes through", child(func(r *launch.WitnessReport) { r.Denied["unshare"] = "ok" }), wire.AssertSeccomp, wire.Fail, "unshare answered ok"},
	{"a call that the kernel answered itself", child(func(r *launch.WitnessReport) { r.Denied["setns"] = "EBADF" }), wire.AssertSeccomp, wire.Fail, "setns answered EBADF"},
	{"a witness that tried nothing", child(func(r *launch.WitnessReport) { r.Denied = nil }), wire.AssertSeccomp, wire.Fail, "tried no call"},

	{"no no_new_privs", child(func(r *launch.WitnessReport) { r.NoNewPrivs = 0 }), wire.AssertNoNewPrivs, wire.Fail, "NoNewPrivs: 0"},

	{"no memory wall", func(_ *testing.T, f *fixture) { f.Outgrow = outgrown(probe.Outgrown{TouchedMB: 2112}, nil) }, wire.AssertMemory, wire.Fail, "2112 MiB and nothing stopped it at 2048 MiB"},
	{"a limit of the child's own", func(_ *testing.T, f *fixture) {
		f.Outgrow = outgrown(probe.Outgrown{Stopped: true, TouchedMB: 2000, How: "ENOMEM"}, nil)
	}, wire.AssertMemory, wire.Fail, "a limit of its own"},
	{"a child that somebody else killed", func(_ *testing.T, f *fixture) { f.Kills = kills(3) }, wire.AssertMemory, wire.Fail, "counts no process"},
	{"a memory wall that can't be tried", func(_ *testing.T, f *fixture) { f.Outgrow = outgrown(probe.Outgrown{}, errors.New("no child")) }, wire.AssertMemory, wire.Fail, "no child"},
	{"a memory wall that isn't claimed", func(_ *testing.T, f *fixture) { f.manifest.Probe.MemoryWall = false }, wire.AssertMemory, wire.NotClaimed, "claims no memory wall"},
}

func TestEveryAssertionFailsInARoomThatBreaksOnlyIt(t *testing.T) {
	failed := make(map[wire.AssertionID]bool)
	for _, b := range rooms {
		t.Run(b.name, func(t *testing.T) {
			f := good(t)
			b.down(t, f)
			for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
				switch {
				case v.ID != b.id && v.Outcome != wire.Pass:
					t.Errorf("%s is %s too: %s", v.ID, v.Outcome, v.Detail)
				case v.ID == b.id && (v.Outcome != b.outcome || !strings.Contains(v.Detail, b.detail)):
					t.Errorf("%s is %s (%q), want %s (…%q…)", v.ID, v.Outcome, v.Detail, b.outcome, b.detail)
				}
			}
		})
		failed[b.id] = failed[b.id] || b.outcome == wire.Fail
	}
	for _, id := range wire.Assertions[1:] {
		if !failed[id] {
			t.Errorf("no room makes %s fail", id)
		}
	}
}

func TestACredentialInTheEnvironmentFailsBothOfItsAssertions(t *testing.T) {
	for _, entry := range []string{"DATABASE_URL=secret", "AWS_ACCESS_KEY_ID=secret", "AWS_X=secret", "BATLEHUB_IMAGE=secret"} {
		f := good(t)
		f.Environ = append(f.Environ, entry)
		name, _, _ := strings.Cut(entry, "=")
		for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
			bad := v.ID == wire.AssertEnvironment || v.ID == wire.AssertCredentials
			if bad != (v.Outcome == wire.Fail) || bad && !strings.Contains(v.Detail, name) {
				t.Errorf("with %s %s is %s (%q)", name, v.ID, v.Outcome, v.Detail)
			}
			if strings.Contains(v.Detail, "secret") {
				t.Errorf("%s repeats a value of the environment: %q", v.ID, v.Detail)
			}
		}
	}
}

// What must not make an assertion fail.
var fine = []struct {
	name   string
	change func(*testing.T, *fixture)
}{
	{"pid 1", pids(1, 0)},
	{"a kernel that looks at permissions before a read-only mount", create("/usr/bin/.probe", unix.EACCES)},
	{"a kernel without nodev in which nobody can make a device", ownKernel(unix.EPERM, nil)},
	{"a descriptor among the devices of a kernel of its own", both(ownKernel(unix.EPERM, nil), func(t *testing.T, f *fixture) {
		fd, err := unix.Open(otherDevice(t), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		f.link(t, "/dev/stdin", fmt.Sprintf("/proc/self/fd/%d", fd))
		f.writable = append(f.writable, "/dev/stdin")
	})},
	{"pid 1 of a virtual machine", func(t *testing.T, f *fixture) { f.PID, f.PPID = 1, 0; f.namespace(t, "pid:[4026531836]") }},
	{"no PWD", environ("HOME=/work", path)},
	{"the machine's own name, which podman sets", extra("HOSTNAME=sandbox")},
	{"a cgroup that can't be seen", func(_ *testing.T, f *fixture) { f.Kills = func() (int64, bool) { return 0, false } }},
	{"a kernel that can't close the bundle's directory", child(func(r *launch.WitnessReport) {
		r.CanClose, r.Open = false, map[string]string{"/bundle": "list answered ok, create answered ok"}
	})},
	{"a kubelet's variables where they are allowed", func(_ *testing.T, f *fixture) {
		f.manifest.Probe.KubernetesEnv = true
		f.Environ = append(f.Environ, "KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_PORT=tcp://10.0.0.1", "KUBERNETES_PORT_443_TCP=x")
	}},
	{"a pod's work directory", pod("1", unix.EPERM)},
	{"a termination log that is closed to a scanner", log("", true)},
	{"a termination log in a kernel that can't close it", log("list answered ok, create answered ok", false)},
	{"rejections by others", network(gate.Rejected, "1.1.1.1:53")},
	{"writable mounts covered by a read-only one", both(inMounts("tmpfs /dev tmpfs ro", "tmpfs /dev tmpfs rw 0 0\ntmpfs /dev tmpfs ro"), also("/dev"))},
	{"a writable-looking mount that can't be written", inMounts("tmpfs /dev tmpfs ro", "tmpfs /dev tmpfs rw")},
	{"null in the list of devices", func(t *testing.T, f *fixture) {
		f.link(t, "/dev/zero", "/dev/zero")
		f.writable = append(f.writable, "/dev/zero")
	}},
	{"a device that can't be written", func(t *testing.T, f *fixture) { f.link(t, "/dev/kvm", otherDevice(t)) }},
	{"a name found in the second directory", func(_ *testing.T, f *fixture) { f.manifest.Probe.Commands = []string{"other"} }},
}

func TestWhatIsHarmlessDoesNotFail(t *testing.T) {
	for _, c := range fine {
		t.Run(c.name, func(t *testing.T) {
			f := good(t)
			c.change(t, f)
			for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
				if v.Outcome != wire.Pass {
					t.Errorf("%s is %s: %s", v.ID, v.Outcome, v.Detail)
				}
			}
		})
	}
}

func TestAWitnessThatCantBeAskedFailsWhatRestsOnIt(t *testing.T) {
	f := good(t)
	f.Witness = func(context.Context, []string) (launch.WitnessReport, error) {
		return launch.WitnessReport{}, errors.New("asking a witness: no process")
	}
	for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
		rests := v.ID == wire.AssertSeccomp || v.ID == wire.AssertNoNewPrivs || v.ID == wire.AssertWorkDir
		if rests != (v.Outcome == wire.Fail) || rests && !strings.Contains(v.Detail, "asking a witness: no process") {
			t.Errorf("%s is %s (%q)", v.ID, v.Outcome, v.Detail)
		}
	}
}

func TestHarmlessMountsAreNamedInTheDetail(t *testing.T) {
	f := good(t)
	for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
		if v.ID == wire.AssertWorkDir && (!strings.Contains(v.Detail, "/proc (proc)") || !strings.Contains(v.Detail, "/dev/mqueue (mqueue)") ||
			!strings.Contains(v.Detail, "/bundle, through which bundle and result pass and which is closed")) {
			t.Errorf("the detail is %q", v.Detail)
		}
	}
}

func TestDetailsAreOneLineAndBounded(t *testing.T) {
	f := good(t)
	f.Environ = append(f.Environ, strings.Repeat("long\n\x1b[31m\xff", 4000)+"=x")
	for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
		if len(v.Detail) > wire.DetailCap || strings.ContainsAny(v.Detail, "\n\x1b") || strings.ToValidUTF8(v.Detail, "") != v.Detail {
			t.Errorf("%s has a detail of %d bytes: %.80q", v.ID, len(v.Detail), v.Detail)
		}
	}
}
