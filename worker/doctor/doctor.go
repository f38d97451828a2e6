package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// Outcome is what a check came to.
type Outcome string

// The outcomes of a check.
const (
	Pass Outcome = "PASS"
	// Caution: it works, and there is something to know.
	Caution Outcome = "CAUTION"
	// Fail: the runtime does not work like this.
	Fail Outcome = "FAIL"
	// Skipped: it could not be looked at, or does not matter.
	Skipped Outcome = "SKIPPED"
)

// Check is one thing looked at.
type Check struct {
	Runtime string  `json:"runtime"`
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	// Detail is the reason in words.
	Detail string `json:"detail"`
	// Fixes are what to do, the narrowest first.
	Fixes []string `json:"fixes,omitempty"`
}

// Runtimes is what the runtimes of this build tell a doctor.
type Runtimes struct {
	Bwrap     Engine
	OCI       Containers
	Direct    Direct
	Cluster   Cluster
	CheckRoom func(dir string, commands ...string) ([]Problem, error)
}

// Engine is a program that makes sandboxes.
type Engine struct {
	// Find returns its absolute path.
	Find func(binary string) (string, error)
	// Version returns its version, empty if it names none, and whether that
	// is new enough.
	Version    func(ctx context.Context, path string) (string, bool)
	MinVersion string
	// Diagnose tells, from the switches below proc and the program's own
	// words, why it can't make a sandbox: the cause and what to do. Without
	// words it tells what would stop it, and no cause when nothing would.
	Diagnose func(proc, stderr string) (cause string, fixes []string)
	// UID is what runs drop to when the worker is root.
	UID int
}

// Problem is one thing wrong with a room.
type Problem struct{ Path, Detail, Fix string }

// Room is one room that the configuration needs.
type Room struct{ Scanner, Command string }

// Host is what is examined. Its paths are fields so that a test can show any
// host to it.
type Host struct {
	Runtimes
	Sandbox config.Sandbox
	Rooms   []Room
	// Images are what the scanners run in, for runtimes with images.
	Images []Image
	// Parallel is how many runs there may be at a time, and User the name of
	// this process's user.
	Parallel int64
	User     string
	// Zones are the networks that the firewall bounds.
	Zones func(context.Context) ([]firewall.Zone, error)
	// Agent is the agent's binary, empty when none was found.
	Agent string
	// Unsafe says that running without walls was asked for by name, UnsafeName
	// how that is done.
	Unsafe     bool
	UnsafeName string
	// Proc is /proc, Sys /sys.
	Proc, Sys string
	// Etc is /etc.
	Etc string
	// OpenFiles is this process's hard limit of open files; 0 means that it is
	// looked at.
	OpenFiles uint64
	// EUID is this process's effective uid.
	EUID int
	// Try makes one sandbox around nothing and returns what the program at
	// path printed to stderr; nil means Try.
	Try func(ctx context.Context, path string, uid int) (stderr string, err error)
	// Look finds a program on PATH, and Run asks one; nil means the host's.
	Look func(name string) (string, error)
	Run  func(ctx context.Context, path string, args ...string) (stdout, stderr string, err error)
}

// Examine makes every check, runtime by runtime.
func Examine(ctx context.Context, h Host) []Check {
	if h.Proc == "" {
		h.Proc = "/proc"
	}
	if h.Sys == "" {
		h.Sys = "/sys"
	}
	if h.Etc == "" {
		h.Etc = "/etc"
	}
	if h.Try == nil {
		h.Try = try
	}
	if h.Look == nil {
		h.Look = exec.LookPath
	}
	if h.Run == nil {
		h.Run = run
	}
	checks := h.bwrap(ctx)
	checks = append(checks, h.oci(ctx)...)
	checks = append(checks, h.crun(ctx)...)
	checks = append(checks, h.kubernetes(ctx)...)
	return append(checks, h.none())
}

// Worst is the worst outcome among a runtime's checks.
func Worst(checks []Check, runtime string) Outcome {
	order := map[Outcome]int{Skipped: 0, Pass: 1, Caution: 2, Fail: 3}
	worst := Skipped
	for _, c := range checks {
		if c.Runtime == runtime && order[c.Outcome] > order[worst] {
			worst = c.Outcome
		}
	}
	return worst
}

func (h Host) none() Check {
	if h.Unsafe {
		return Check{"none", "walls", Caution, "there are none, and " + h.UnsafeName + "=1 allows it: what a scanner opens, this host opens", nil}
	}
	return Check{"none", "walls", Fail, "there are none, so this runtime is refused", []string{
		"choose another runtime", "for tests only: " + h.UnsafeName + "=1",
	}}
}

func (h Host) bwrap(ctx context.Context) []Check {
	program, path := h.program(ctx)
	checks := []Check{program}
	if path != "" {
		checks = append(checks, h.sandbox(ctx, path))
	}
	checks = append(checks, h.seccomp(), h.identity(), h.runDir(), h.limits(), h.cgroups(), h.agent())
	checks = append(checks, h.rooms()...)
	for i := range checks {
		checks[i].Runtime = "bwrap"
	}
	return checks
}

func (h Host) program(ctx context.Context) (Check, string) {
	const name = "program"
	install := []string{"apt-get install bubblewrap, or dnf install bubblewrap", "or set [worker.sandbox.bwrap] binary"}
	path, err := h.Bwrap.Find(h.Sandbox.Bwrap.Binary)
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("there is no program %q: %v", h.Sandbox.Bwrap.Binary, err), Fixes: install}, ""
	}
	version, enough := h.Bwrap.Version(ctx, path)
	switch {
	case version == "":
		return Check{Name: name, Outcome: Caution, Detail: path + " names no version of bubblewrap"}, path
	case !enough:
		return Check{
			Name: name, Outcome: Fail,
			Detail: fmt.Sprintf("%s is bubblewrap %s, which is older than %s and can't keep a sandbox from making user namespaces of its own", path, version, h.Bwrap.MinVersion),
			Fixes:  []string{"install bubblewrap " + h.Bwrap.MinVersion + " or later", "or set [worker.sandbox.bwrap] binary to one"},
		}, ""
	}
	return Check{Name: name, Outcome: Pass, Detail: "bubblewrap " + version + " at " + path}, path
}

// sandbox makes one sandbox around nothing, which is the only sure way to know
// that this host lets one be made.
func (h Host) sandbox(ctx context.Context, path string) Check {
	const name = "user namespaces"
	uid := 0
	if h.EUID == 0 {
		uid = h.Bwrap.UID
	}
	stderr, err := h.Try(ctx, path, uid)
	if err != nil {
		cause, fixes := h.Bwrap.Diagnose(h.Proc, stderr+" ")
		if masks := h.maskedProc(); len(masks) > 0 {
			cause += "; /proc is covered at " + strings.Join(masks, ", ")
		}
		if option := h.hidepid(); option != "" {
			cause += "; /proc is mounted with " + option
			fixes = append(fixes, "mount -o remount,hidepid=0 /proc")
		}
		return Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("bwrap can't make a sandbox (%v): %q: %s", err, lastLine(stderr), cause), Fixes: fixes}
	}
	if cause, _ := h.Bwrap.Diagnose(h.Proc, ""); cause != "" {
		return Check{Name: name, Outcome: Pass, Detail: "a sandbox could be made, although " + cause}
	}
	return Check{Name: name, Outcome: Pass, Detail: "a sandbox could be made"}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
