package wire

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// ProbeRequest turns a run into a probe.
type ProbeRequest struct {
	// Commands are the programs that the room must hold, as an absolute path
	// or as a name looked up on PATH.
	Commands []string `json:"commands"`
	// WorkerRoom says that the room is the worker's own image, which has a
	// shell and the worker's program by construction: finding them is then a
	// warning and not a failure.
	WorkerRoom bool `json:"worker_room"`
	// KubernetesEnv allows what a kubelet does whatever a pod asks for: the
	// variables that it injects for the API service, and a work directory
	// without nosuid and nodev, in whose place the agent then has to see what
	// keeps set-id bits and devices from being of use. Set by the kubernetes
	// runtime alone.
	KubernetesEnv bool `json:"kubernetes_env"`
	// MemoryWall says that the runtime claims a wall at Limits.MemoryMB, which
	// the agent then runs into.
	MemoryWall bool `json:"memory_wall"`
	// OwnKernel says that the sandbox has a kernel of its own, as gVisor's have:
	// one without nodev mounts, whose devices are nobody else's. The agent then
	// has to see that no device can be made. Set by the crun runtime over runsc,
	// and by the kubernetes runtime with a runtime class that is said to be one.
	OwnKernel bool `json:"own_kernel"`
}

func (p *ProbeRequest) validate() error {
	if len(p.Commands) > CommandCountCap {
		return fmt.Errorf("%d probe commands, want at most %d", len(p.Commands), CommandCountCap)
	}
	for _, c := range p.Commands {
		if c == "" || len(c) > PathBytesCap || indexNUL(c) {
			return errors.New("a probe command is empty, too long or has a NUL byte")
		}
		if strings.Contains(c, "/") && (!path.IsAbs(c) || path.Clean(c) != c) {
			return fmt.Errorf("probe command %.64q, want a bare name or a clean absolute path", c)
		}
	}
	return nil
}

// AssertionID names one wall's check, for good.
type AssertionID string

// The assertions of a probe, in the order in which they are reported. All but
// AssertResult are made by the agent from inside.
const (
	// AssertResult: a result came back at all.
	AssertResult AssertionID = "result"
	// AssertWire: the agent speaks the worker's wire version.
	AssertWire AssertionID = "wire-version"
	// AssertNetwork: no canary can be reached.
	AssertNetwork AssertionID = "no-network"
	// AssertReadOnlyRoot: the root file system can't be written.
	AssertReadOnlyRoot AssertionID = "read-only-root"
	// AssertWorkDir: the work directory is writable, nosuid and nodev.
	AssertWorkDir AssertionID = "one-writable-dir"
	// AssertEnvironment: the agent received HOME and PATH alone.
	AssertEnvironment AssertionID = "empty-environment"
	// AssertUnprivileged: not uid 0, no capability.
	AssertUnprivileged AssertionID = "unprivileged"
	// AssertCredentials: no token, no credential in the environment.
	AssertCredentials AssertionID = "no-credentials"
	// AssertRoom: no shell, no worker program on PATH.
	AssertRoom AssertionID = "no-shell"
	// AssertCommand: every listed command is an executable file.
	AssertCommand AssertionID = "scanner-command"
	// AssertPIDNamespace: the agent is pid 1 or a child of pid 1.
	AssertPIDNamespace AssertionID = "pid-namespace"
	// AssertSeccomp: the filter is really on in a child and refuses.
	AssertSeccomp AssertionID = "seccomp"
	// AssertNoNewPrivs: no_new_privs is really on in a child.
	AssertNoNewPrivs AssertionID = "no-new-privileges"
	// AssertMemory: the memory wall stands where it is claimed.
	AssertMemory AssertionID = "memory-wall"
)

// Assertions lists every assertion in reporting order.
var Assertions = []AssertionID{
	AssertResult, AssertWire, AssertNetwork, AssertReadOnlyRoot, AssertWorkDir,
	AssertEnvironment, AssertUnprivileged, AssertCredentials, AssertRoom, AssertCommand,
	AssertPIDNamespace, AssertSeccomp, AssertNoNewPrivs, AssertMemory,
}

// Outcome is what an assertion came to.
type Outcome string

// The outcomes of an assertion.
const (
	// Pass: the wall holds.
	Pass Outcome = "pass"
	// Fail: the wall does not hold, or could not be seen to hold.
	Fail Outcome = "fail"
	// Warn: the wall does not hold, and the room is one where that is expected.
	Warn Outcome = "warn"
	// NotClaimed: the runtime does not claim this wall.
	NotClaimed Outcome = "not_claimed"
)

// Verdict is one assertion's outcome, with what was seen.
type Verdict struct {
	ID      AssertionID `json:"id"`
	Outcome Outcome     `json:"outcome"`
	// Detail is what was seen, in one line.
	Detail string `json:"detail"`
}

// ProbeResult is what a probe saw from inside.
type ProbeResult struct {
	Verdicts []Verdict `json:"verdicts"`
	// Commands are the programs that were found, with their digests.
	Commands []CommandReport `json:"commands"`
	// UID is the effective uid that the agent had.
	UID int `json:"uid"`
}

// CommandReport identifies one program in the room.
type CommandReport struct {
	// Command is as it was asked for.
	Command string `json:"command"`
	// Path is where it was found.
	Path string `json:"path"`
	// SHA256 is the digest of its content in hexadecimal.
	SHA256 string `json:"sha256"`
	// Size is the length of its content in bytes.
	Size int64 `json:"size"`
}
