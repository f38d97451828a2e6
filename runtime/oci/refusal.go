package oci

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// docs is where an operator reads on.
const docs = "see docs/operations/scan-worker.md#runtimes"

// The statuses of an engine's run that are not the container's.
const (
	// engineFailed: the container could not be made or started.
	engineFailed = 125
	// notInvoked and notFound: its entrypoint can't be executed.
	notInvoked = 126
	notFound   = 127

	badFormat = "exec format error"
)

// refusal is what an engine says and what it means.
type refusal struct {
	// words are what has to be there of what it printed, all of them.
	words []string
	kind  sandbox.Kind
	code  sandbox.Code
	hint  string
}

// refusals are looked through in order. What a test calls recorded was seen:
// podman 4.3.1, and docker 20.10.24 with client 28.2.2. The other words are those
// of the engines' sources, of releases up to podman 5 and docker 28.
var refusals = []refusal{
	{[]string{`exec: "` + agent + `"`, "not found"}, sandbox.Refused, sandbox.CodeNoAgent, noAgent},
	{[]string{`exec: "` + agent + `"`, "no such file"}, sandbox.Refused, sandbox.CodeNoAgent, noAgent},
	{[]string{`exec: "` + agent + `"`, "permission denied"}, sandbox.Refused, sandbox.CodeNoAgent, noAgent},
	{[]string{"executable file `" + agent + "`"}, sandbox.Refused, sandbox.CodeNoAgent, noAgent},
	{[]string{badFormat}, sandbox.Refused, sandbox.CodeNoAgent, "the image is of another architecture: build it for this host's"},

	// What stands between an engine and its container was killed.
	{[]string{"conmon bytes"}, sandbox.Crashed, sandbox.CodeInternal, conmonGone},
	{[]string{"write child: broken pipe"}, sandbox.Crashed, sandbox.CodeInternal, conmonGone},
	{[]string{"runc did not terminate successfully"}, sandbox.Crashed, sandbox.CodeInternal, ociGone},
	{[]string{"failed to start shim"}, sandbox.Crashed, sandbox.CodeInternal, shimGone},
	{[]string{"OCI runtime", "signal: killed"}, sandbox.Crashed, sandbox.CodeInternal, ociGone},

	{[]string{"No such image"}, sandbox.Refused, sandbox.CodeImageMissing, noImage},
	{[]string{"image not known"}, sandbox.Refused, sandbox.CodeImageMissing, noImage},
	{[]string{"pull access denied"}, sandbox.Refused, sandbox.CodeImageMissing, noPull},
	{[]string{"manifest unknown"}, sandbox.Refused, sandbox.CodeImageMissing, noPull},
	{[]string{"initializing source"}, sandbox.Crashed, sandbox.CodeImageMissing, noPull},
	{[]string{"short-name", "did not resolve"}, sandbox.Refused, sandbox.CodeImageMissing, "name the image in full, registry included"},
	{[]string{"Error response from daemon: Get \"http"}, sandbox.Crashed, sandbox.CodeImageMissing, noPull},

	{[]string{"unknown flag"}, sandbox.Refused, sandbox.CodeEngineOld, "install a newer engine, or look at [worker.sandbox.oci] extra_args"},
	{[]string{"unknown shorthand flag"}, sandbox.Refused, sandbox.CodeEngineOld, "look at [worker.sandbox.oci] extra_args"},
	{[]string{"is already in use"}, sandbox.Crashed, sandbox.CodeInternal, "another worker on this engine has a job of the same id, or left its container: give jobs ids of their own; its sweep removes what is left"},
	{[]string{"network not found"}, sandbox.Refused, sandbox.CodeConfig, noNetworkHint},
	{[]string{"unable to find network"}, sandbox.Refused, sandbox.CodeConfig, noNetworkHint},
	{[]string{"network", "not found"}, sandbox.Refused, sandbox.CodeConfig, noNetworkHint},
	{[]string{"OCI runtime", "not found"}, sandbox.Refused, sandbox.CodeConfig, "look at [worker.sandbox.oci] extra_args: the engine knows no such OCI runtime"},
	{[]string{"Unknown runtime specified"}, sandbox.Refused, sandbox.CodeConfig, "look at [worker.sandbox.oci] extra_args: the daemon knows no such runtime"},

	{[]string{"Cannot connect to the Docker daemon"}, sandbox.Crashed, sandbox.CodeNoEngine, "start the docker daemon, or set DOCKER_HOST for the worker"},
	{[]string{"permission denied", "docker API"}, sandbox.Refused, sandbox.CodeNoEngine, "let the worker's user use the docker socket"},
	{[]string{"permission denied", "Docker daemon socket"}, sandbox.Refused, sandbox.CodeNoEngine, "let the worker's user use the docker socket"},
	{[]string{"error waiting for container"}, sandbox.Crashed, sandbox.CodeNoEngine, "the daemon went away during the run, which can be repeated"},
	{[]string{"connection refused", "docker.sock"}, sandbox.Crashed, sandbox.CodeNoEngine, "start the docker daemon"},

	{[]string{"no subuid ranges found"}, sandbox.Refused, sandbox.CodeHostRefused, subuids},
	{[]string{"cannot find UID/GID for user"}, sandbox.Refused, sandbox.CodeHostRefused, subuids},
	{[]string{"cannot find mappings for user"}, sandbox.Refused, sandbox.CodeHostRefused, subuids},
	{[]string{"could not find enough available IDs"}, sandbox.Refused, sandbox.CodeHostRefused, subuids},
	{[]string{"not enough unused IDs"}, sandbox.Refused, sandbox.CodeHostRefused, "enlarge the ranges in /etc/subuid and /etc/subgid: each container takes 65,533 ids"},
	{[]string{"potentially insufficient UIDs or GIDs"}, sandbox.Refused, sandbox.CodeHostRefused, subuids},
	{[]string{"cannot clone"}, sandbox.Refused, sandbox.CodeHostRefused, userns},
	{[]string{"cannot re-exec process"}, sandbox.Refused, sandbox.CodeHostRefused, userns},
	{[]string{"failed to reexec"}, sandbox.Refused, sandbox.CodeHostRefused, userns},
	{[]string{"unshare", "Operation not permitted"}, sandbox.Refused, sandbox.CodeHostRefused, userns},
	{[]string{"newuidmap"}, sandbox.Refused, sandbox.CodeHostRefused, "install newuidmap (the package uidmap), and give the worker's user ranges in /etc/subuid and /etc/subgid"},
	{[]string{"cgroups in hybrid mode not supported"}, sandbox.Refused, sandbox.CodeHostRefused, `let podman use runc: runtime = "runc" in containers.conf`},
	{[]string{"RLIMIT", "operation not permitted"}, sandbox.Refused, sandbox.CodeHostRefused, "lower default_ulimits in containers.conf to what the worker may have"},
	{[]string{"setting rlimit", "operation not permitted"}, sandbox.Refused, sandbox.CodeHostRefused, "lower default_ulimits in containers.conf to what the worker may have"},
	{[]string{"controller", "is not available"}, sandbox.Refused, sandbox.CodeHostRefused, "delegate the cpu, memory and pids controllers to the worker's user"},
	{[]string{"statfs", "no such file or directory"}, sandbox.Crashed, sandbox.CodeInternal, "the engine has to see the run directory where this worker does: look at [worker.sandbox] run_dir"},
	{[]string{"no space left on device"}, sandbox.Crashed, sandbox.CodeNoSpace, "free space where the engine keeps its containers"},
}

const (
	conmonGone    = "conmon or the OCI runtime was ended while it made the container; the run can be repeated"
	shimGone      = "the containerd shim was ended while it made the container; the run can be repeated"
	ociGone       = "the OCI runtime was ended while it made the container; the run can be repeated"
	noAgent       = "the image needs the agent at /usr/local/bin/" + agent + ", executable, as the images of this release have it"
	noImage       = `load or build the image on this host, or set [worker.sandbox.oci] pull = "if-absent"`
	noPull        = "look that the registry has the image and lets this host pull it"
	noNetworkHint = "look at [worker.sandbox.oci] network: the engine knows no such network"
	subuids       = "podman --userns auto takes its ids from /etc/subuid and /etc/subgid: give the user containers (or, rootless, the worker's own) a range there"
	userns        = "this host denies user namespaces; " + docs
)

// recognise gives e the kind, the code and the hint of what the engine said,
// if that is known.
func (r *Runtime) recognise(e *sandbox.Error, status int) {
	e.Code = sandbox.CodeInternal
	e.Hint = docs
	for _, known := range refusals {
		if containsAll(e.Stderr, known.words) {
			e.Kind, e.Code, e.Hint = known.kind, known.code, known.hint
			break
		}
	}
	if e.Code == sandbox.CodeInternal && status != engineFailed && containsAll(e.Stderr, []string{"exec", agent}) {
		// The statuses alone say little: podman has them for any container
		// that its OCI runtime did not start.
		e.Kind, e.Code, e.Hint = sandbox.Refused, sandbox.CodeNoAgent, noAgent
	}
	if e.Code == sandbox.CodeNoEngine || e.Code == sandbox.CodeEngineOld {
		r.engine.forget()
	}
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// agentFailed completes e for an agent that could not do its part.
func (r *Runtime) agentFailed(p parcel, e *sandbox.Error, status int) {
	switch {
	case p.full():
		e.Code = sandbox.CodeNoSpace
		e.Hint = r.freeSpace()
	case r.config.Transport == Storage:
		unreached(e, status)
	case status == bundle.ExitManifest:
		e.Hint = fmt.Sprintf("the engine has to see %s where this worker does, and let the sandbox read it (another host or mount "+
			"namespace? SELinux?)", r.config.RunDir)
	}
}

// unreached completes e for an agent to which the storage did not do its part.
func unreached(e *sandbox.Error, status int) {
	switch code := bundle.StorageExit(status); code {
	case sandbox.CodeFetch:
		e.Code, e.Hint = code, toStorage
	case sandbox.CodeStorage:
		e.Code, e.Hint = code, unstored
	}
}

func (r *Runtime) freeSpace() string {
	return fmt.Sprintf("free space below %s, or put run directories elsewhere", r.config.RunDir)
}

const (
	toStorage = "the sandbox has to reach the storage: run sandboxctl network, and look at storage_pool and the endpoint's address"
	unstored  = "look at the storage, and at the way to it from the sandbox's network; the run can be repeated; " + docs
)

// answers says whether the engine still does.
func (r *Runtime) answers(ctx context.Context) bool {
	r.engine.forget()
	_, fault := r.engine.find(ctx)
	return fault == nil
}

// killed completes e for a container whose first process, the agent, a signal
// has ended, and not on this runtime's behalf.
func (r *Runtime) killed(ctx context.Context, j *job, e *sandbox.Error, signal syscall.Signal, began time.Time) {
	e.Signal = fail.Signal(signal)
	e.Detail = fmt.Sprintf("the container was ended by %s and no result came back", e.Signal)
	if signal != syscall.SIGKILL {
		return
	}
	switch out, known := r.outOfMemory(ctx, j, began); {
	case out:
		e.Code, e.OOMKilled = sandbox.CodeOOMKilled, true
		e.Detail = "the container was killed for want of memory, the agent with it"
		e.Hint = "raise memory_limit_mb if this scanner needs more"
	case known:
		e.Detail += ": somebody killed it, and not for want of memory"
	case r.config.Engine == Docker && !r.answers(ctx):
		// A daemon that is shut down ends its containers first.
		e.Code = sandbox.CodeNoEngine
		e.Detail = "the docker daemon was shut down during the run"
		e.Hint = "the run can be repeated once it is back"
	default:
		e.Detail += ": the kernel killed it for want of memory, or somebody did"
		e.Hint = "raise memory_limit_mb if this scanner needs more, or look who ends containers on this host; " + docs
	}
}
