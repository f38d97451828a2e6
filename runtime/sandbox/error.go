package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Kind is what a run without an answer came to. Its values are the outcome
// label of the metrics.
type Kind string

// The kinds of an Error.
const (
	// StartTimeout: the agent had not fetched its bundle in time.
	StartTimeout Kind = "start_timeout"
	// RunTimeout: extraction and scanner took longer than they may.
	RunTimeout Kind = "run_timeout"
	// Crashed: the instance could not start, died, or could not do its part.
	Crashed Kind = "crashed"
	// ResultInvalid: a result came back that can't be taken.
	ResultInvalid Kind = "result_invalid"
	// Refused: the runtime will not do what was asked, whatever is tried.
	Refused Kind = "refused"
	// Cancelled: the caller's context ended first.
	Cancelled Kind = "cancelled"
)

// Code tells errors of one kind apart, for programs.
type Code string

// The codes of an Error.
const (
	// CodeNoEngine: the program that makes the sandbox is missing.
	CodeNoEngine Code = "no_engine"
	// CodeEngineOld: that program is too old for what is asked of it.
	CodeEngineOld Code = "engine_old"
	// CodeHostRefused: the host does not let the sandbox be made.
	CodeHostRefused Code = "host_refused"
	// CodeNotRootless: the runtime can't do this without root.
	CodeNotRootless Code = "not_rootless"
	// CodeRoomMissing: there is no tree or image for the scanner.
	CodeRoomMissing Code = "room_missing"
	// CodeImageMissing: the image is not there and may not be pulled.
	CodeImageMissing Code = "image_missing"
	// CodeNoAgent: the room holds no agent.
	CodeNoAgent Code = "no_agent"
	// CodeConfig: the request or the configuration contradicts itself.
	CodeConfig Code = "config"
	// CodeUnsafe: running without walls was not asked for by name.
	CodeUnsafe Code = "unsafe"
	// CodeCommandMissing: the scanner's program is not in the room.
	CodeCommandMissing Code = "command_missing"
	// CodeNoResult: the instance ended and left no result.
	CodeNoResult Code = "no_result"
	// CodeOOMKilled: the instance was killed for want of memory.
	CodeOOMKilled Code = "oom_killed"
	// CodeStdoutCap: the scanner printed more than may be read.
	CodeStdoutCap Code = "stdout_cap"
	// CodeForged: the result is not the agent's.
	CodeForged Code = "forged"
	// CodeNoSpace: a disk on our side of the wall is full.
	CodeNoSpace Code = "no_space"
	// CodeStorage: the storage backend did not answer or refused.
	CodeStorage Code = "storage"
	// CodeNetworkOpen: a run without network could reach a canary.
	CodeNetworkOpen Code = "network_open"
	// CodeFetch: the inputs could not be fetched.
	CodeFetch Code = "fetch"
	// CodeInternal: anything else that is our own fault.
	CodeInternal Code = "internal"
)

// Error is a run that has no answer. It prints as one line.
type Error struct {
	Kind Kind
	Code Code
	// Runtime is the name of the runtime; Run the label of the run, empty
	// when the error is not about one run.
	Runtime string
	Run     string
	// Detail says what went wrong, Hint the one thing to do about it.
	Detail string
	Hint   string
	// Stderr is the end of what the engine printed to stderr.
	Stderr string
	// OOMKilled and Signal say how the instance died, where that is known.
	OOMKilled bool
	Signal    string
	// Err is the cause, which errors.Is and errors.As look through.
	Err error
}

// Error is one line: who, what, why, what to do.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandbox %s", e.Runtime)
	if e.Run != "" {
		fmt.Fprintf(&b, ": run %s", e.Run)
	}
	fmt.Fprintf(&b, ": %s", strings.ReplaceAll(string(e.Kind), "_", " "))
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", oneLine(e.Detail))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", oneLine(e.Err.Error()))
	}
	if line := e.Said(); line != "" {
		fmt.Fprintf(&b, ": %q", line)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", oneLine(e.Hint))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first *Error in err's tree, or "".
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// CodeOf returns the code of the first *Error in err's tree, or "".
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Said is the line of Stderr that says what went wrong: the last, or the first of
// a Go program's crash, behind which its stacks come. Of stacks alone, whose
// beginning was cut off, none is.
func (e *Error) Said() string {
	for line := range strings.Lines(e.Stderr) {
		if strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "panic: ") {
			return oneLine(line)
		}
	}
	s := strings.TrimSpace(e.Stderr)
	last := s[strings.LastIndexByte(s, '\n')+1:]
	if frame.MatchString(last) {
		return ""
	}
	return oneLine(last)
}

// frame is where a function of a Go program's stack is.
var frame = regexp.MustCompile(`^\s*\S+\.(go|s):\d+( \+0x[0-9a-f]+)?\s*$`)
