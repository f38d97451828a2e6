package bundle

import (
	"context"
	"errors"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Output is what a run's result means to its caller: an answer, or why there
// is none. The error's Runtime and Run are left to whoever knows them.
func Output(r *wire.Result, stdout []byte) (sandbox.RunOutput, *sandbox.Error) {
	out := sandbox.RunOutput{Status: r.Status, Stdout: stdout, StderrTail: r.StderrTail, Result: *r}
	switch r.Ending {
	case wire.EndRefused:
		return out, nil
	case wire.EndExited, wire.EndSignaled:
		if r.OOMKilled {
			return out, outOfMemory(r)
		}
		return out, nil
	case wire.EndTimedOut:
		return out, &sandbox.Error{Kind: sandbox.RunTimeout, Detail: "extraction and scanner took longer than they may"}
	case wire.EndStdoutCap:
		return out, &sandbox.Error{
			Kind: sandbox.ResultInvalid, Code: sandbox.CodeStdoutCap,
			Detail: fmt.Sprintf("the scanner printed more than %d bytes", wire.StdoutCap),
		}
	case wire.EndFailed:
		return out, failure(r.Failure)
	case wire.EndProbed:
	}
	return out, &sandbox.Error{Kind: sandbox.ResultInvalid, Detail: fmt.Sprintf("a run can't end as %q", r.Ending)}
}

// outOfMemory is a run of which the kernel killed a process for want of memory.
// It may not have been the scanner itself, which then went on without an answer
// of that process's: what it printed can't be told from the whole.
func outOfMemory(r *wire.Result) *sandbox.Error {
	killed := "the scanner"
	if r.Ending == wire.EndExited {
		killed = "a process of the scanner's"
	}
	return &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeOOMKilled, OOMKilled: true, Signal: r.Signal,
		Detail: killed + " was killed for want of memory",
		Hint:   "raise memory_limit_mb if this scanner needs more",
	}
}

// failure is what the agent could not do, in the port's terms.
func failure(f *wire.Failure) *sandbox.Error {
	e := &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeInternal,
		Detail: fmt.Sprintf("the agent failed at %s: %s", f.Stage, f.Detail),
	}
	switch {
	case f.Code == wire.CodeWireVersion:
		return versionError(errors.New(f.Detail))
	case f.Code == wire.CodeNoSpace:
		e.Code = sandbox.CodeNoSpace
		e.Hint = "the work directory is full: free space where run directories are made or, where it is a tmpfs, raise max_extracted_mb"
	case f.Code == wire.CodeNetworkOpen:
		e.Code = sandbox.CodeNetworkOpen
		e.Hint = "the run was to be kept from that address; the scanner was not started"
	case f.Stage == wire.StageLaunch && (f.Code == wire.CodeNotFound || f.Code == wire.CodeNotExecutable):
		e.Code = sandbox.CodeCommandMissing
		e.Hint = "the scanner's command has to be an executable file of the room"
	case f.Stage == wire.StageFetch && f.Code == wire.CodeTimeout:
		// The agent's own clock says what the worker's says where the worker
		// sees the fetch.
		e.Kind, e.Code = sandbox.StartTimeout, ""
		e.Hint = "raise start_timeout_secs, or look at the way from a sandbox to the storage"
	case f.Stage == wire.StageFetch || f.Code == wire.CodeSizeMismatch:
		e.Code = sandbox.CodeFetch
	}
	return e
}

// ReadError is what an error of Dir.Result or Remote.Result means to the run's
// caller.
func ReadError(err error) *sandbox.Error {
	var version *wire.VersionError
	switch {
	case errors.As(err, &version):
		return versionError(version)
	case errors.Is(err, ErrNoResult):
		return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Err: err}
	case errors.Is(err, ErrPlanted), errors.Is(err, wire.ErrSeal):
		return &sandbox.Error{Kind: sandbox.ResultInvalid, Code: sandbox.CodeForged, Err: err}
	case errors.Is(err, wire.ErrResult):
		return &sandbox.Error{Kind: sandbox.ResultInvalid, Err: err}
	}
	e := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "reading the result", Err: err}
	switch {
	case storageFault(e):
	case errors.Is(err, errStart):
		e.Kind, e.Code = sandbox.StartTimeout, ""
	case errors.Is(err, errRun):
		e.Kind, e.Code = sandbox.RunTimeout, ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Code = sandbox.Cancelled, ""
	}
	return e
}

func versionError(err error) *sandbox.Error {
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeConfig,
		Detail: "the agent and this worker are of different releases", Err: err,
		Hint: "build the room again with the agent of this release",
	}
}

// AgentExit says in words what a status of the agent means, or nothing for a
// status that is not one of its own.
func AgentExit(status int) string {
	return agentExits[status]
}

// StorageExit is the code of a run whose bundle went by the storage and whose
// agent ended with that status because of it: the manifest could not be had, or
// the result not be stored. Nothing is said about the artifact then. It is empty
// for any other status.
func StorageExit(status int) sandbox.Code {
	switch status {
	case ExitManifest:
		return sandbox.CodeFetch
	case ExitStore:
		return sandbox.CodeStorage
	}
	return ""
}

// The agent's statuses when its manifest can't be had, and when its result can't
// be stored.
const (
	ExitManifest = 65
	ExitStore    = 66
)

// agentExits are the agent's exit codes (package agent, ExitCode), which this
// side of the wall knows by number alone.
var agentExits = map[int]string{
	64:           "usage",
	ExitManifest: "no usable manifest",
	ExitStore:    "the result could not be stored",
	67:           "internal failure",
	68:           "cancelled",
}
