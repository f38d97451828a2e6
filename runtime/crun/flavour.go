package crun

import (
	"fmt"
	"strings"
)

// Flavour is a family of OCI runtime programs: they take different flags, and
// make different calls once their filter is on.
type Flavour string

// The flavours there are.
const (
	// Crun is crun, in C.
	Crun Flavour = "crun"
	// Runc is runc, in Go.
	Runc Flavour = "runc"
	// Runsc is gVisor's runsc, with a kernel of its own per sandbox.
	Runsc Flavour = "runsc"
)

// Flavours lists every flavour.
var Flavours = []Flavour{Crun, Runc, Runsc}

// FlavourOf reads the first line of what a program's --version prints.
func FlavourOf(line string) (Flavour, bool) {
	for _, f := range Flavours {
		if rest, ok := strings.CutPrefix(line, string(f)+" version "); ok && strings.TrimSpace(rest) != "" {
			return f, true
		}
	}
	return "", false
}

// parseFlavour checks a configured flavour; empty means that the program is
// asked.
func parseFlavour(s Flavour) error {
	for _, f := range Flavours {
		if s == f || s == "" {
			return nil
		}
	}
	return fmt.Errorf("the flavour %.32q is none of crun, runc and runsc", string(s))
}

// afterFilter are the calls that each program makes between loading the filter
// and the first instruction of the room, which a program's own profile need
// not have. Measured with crun 1.8.1 (close, execve) and runc 1.1.5; crun
// closes its descriptors with close_range since 1.9, and runc is a Go program,
// whose scheduler calls what it likes.
var afterFilter = map[Flavour][]string{
	Crun: {"close", "close_range", "execve"},
	Runc: {
		"close", "close_range", "epoll_ctl", "epoll_pwait", "execve", "fstatfs", "futex", "getdents64", "getpid",
		"nanosleep", "openat", "rt_sigreturn", "sched_yield", "tgkill", "write",
	},
}
