package bwrap

import (
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// docs is where an operator reads on.
const docs = "see docs/operations/scan-worker.md#runtimes"

// hostRefusals are the ends of bwrap's stderr that mean that the host does not
// let a sandbox be made, in the words of releases 0.4 to 0.12
// (https://github.com/containers/bubblewrap/issues/632, #505, #198).
var hostRefusals = []string{
	"setting up uid map:",
	"setting up gid map:",
	"error writing to setgroups",
	"No permissions to create a new namespace",
	"No permissions to create new namespace",
	"No permissions to creating new namespace",
	"Creating new namespace failed",
	"loopback: Failed",
	"Failed to make / slave",
	"Failed to mount tmpfs",
	"Can't mount proc on",
	"Unable to mount proc",
	"nesting depth or /proc/sys/user/max_",
	"unshare user ns",
	"pivot_root",
}

// recognise gives e the code and the hint of what bwrap said, if that is
// known.
func (r *Runtime) recognise(e *sandbox.Error) {
	said := e.Stderr
	has := func(parts ...string) bool {
		for _, p := range parts {
			if !strings.Contains(said, p) {
				return false
			}
		}
		return true
	}
	switch {
	case has("Unknown option"):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeEngineOld
		e.Hint = fmt.Sprintf("install bubblewrap %s or later", MinVersion)
	case has("execvp " + agent):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeNoAgent
		e.Hint = "the room needs the agent at /usr/local/bin/" + agent + ": build it again with sandboxctl tree"
	case has("Can't find source path", "Permission denied"):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Hint = r.unreachable()
	case has("Can't find source path"):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeRoomMissing
		e.Hint = "build the room again with sandboxctl tree"
	case has("Can't mkdir"), has("Can't create file"):
		e.Kind, e.Code = sandbox.Refused, sandbox.CodeConfig
		e.Hint = "the room lacks a mount point (/work, /proc or /dev): build it again with sandboxctl tree"
	default:
		for _, words := range hostRefusals {
			if has(words) {
				e.Kind, e.Code = sandbox.Refused, sandbox.CodeHostRefused
				e.Hint = Diagnose(r.proc, said).Hint()
				return
			}
		}
	}
}

// unreachable is the hint for a path that the sandbox's uid can't reach.
func (r *Runtime) unreachable() string {
	if r.uid == 0 {
		return "this process has to be able to read the room and the run directory"
	}
	return fmt.Sprintf(
		"bwrap runs as uid %d when the worker is root: every directory above %s and %s has to be searchable for it (chmod o+x)",
		r.uid, r.config.Rooms, r.store.Parent(),
	)
}
