package probe

import (
	"context"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/gate"
	"github.com/batleforc/batlehub-sandbox/agent/internal/launch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/oom"
)

// Silence is how long a canary must not answer to count as out of reach
// (RFC 0022 §4.3).
const Silence = 3 * time.Second

// Room is what the probe looks at. Every path, list and system call that an
// assertion rests on is a field, so that a test can break exactly one.
type Room struct {
	// Root stands in front of every path of the room's own: empty for the
	// real one.
	Root string
	// Proc is where the proc file system is.
	Proc string
	// WorkDir, Home and Path are what the agent was built with: its work
	// directory and the only values that HOME and PATH may have.
	WorkDir, Home, Path string
	// Environ is the environment that the agent was started with.
	Environ []string
	// Nodename is what uname says this machine is called in here.
	Nodename string
	// Exchanges are the directories outside of WorkDir through which bundle
	// and result pass, and a pod's termination log. They are closed to a
	// scanner.
	Exchanges []string
	// EUID, PID and PPID are the agent's own.
	EUID, PID, PPID int
	// Network tries the canaries.
	Network func(context.Context, []netip.AddrPort) []gate.Finding
	// Writable reports whether this process may write at a path, by its
	// permissions and by its mount.
	Writable func(path string) bool
	// Create creates a file for writing, or opens one that exists, and
	// reports what the kernel said.
	Create func(path string) error
	// MakeDevice makes a device, and reports what the kernel said.
	MakeDevice func(path string) error
	// Witness starts a process behind what a scanner is started behind, with
	// the given directories closed to it.
	Witness func(ctx context.Context, closed []string) (launch.WitnessReport, error)
	// Outgrow starts a process that takes more memory than the given MiB.
	Outgrow func(ctx context.Context, limitMB int64) (Outgrown, error)
	// Kills counts the processes of this sandbox that the kernel has killed
	// for want of memory; false where nothing tells.
	Kills func() (int64, bool)
}

// Here returns the room that this process is in, without its Environ: what the
// agent received is only known where the process began.
func Here(workDir, home, path string) Room {
	var name unix.Utsname
	_ = unix.Uname(&name)
	return Room{
		Proc: "/proc", WorkDir: workDir, Home: home, Path: path,
		EUID: os.Geteuid(), PID: os.Getpid(), PPID: os.Getppid(),
		Network: func(ctx context.Context, canaries []netip.AddrPort) []gate.Finding {
			return gate.Check(ctx, canaries, Silence)
		},
		Writable: writable, Create: create, MakeDevice: makeDevice, Witness: launch.Witness, Outgrow: outgrow,
		Nodename: unix.ByteSliceToString(name.Nodename[:]), Kills: oom.Find(oom.Root, os.Getpid()).Kills,
	}
}

// in is a path of the room as this process opens it.
func (r *Room) in(path string) string { return r.Root + path }
