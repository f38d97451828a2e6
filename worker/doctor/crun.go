package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Direct is what the crun runtime tells a doctor.
type Direct struct {
	// Problem is why the runtime can't be made at all, empty if it can.
	Problem string
	// Examine looks at what every run needs of this host.
	Examine func(context.Context) []Check
	// CheckRoom looks at a scanner's room and its pinned digest.
	CheckRoom func(context.Context, Room) Check
}

// crun looks at the program and this host, and at the rooms where this is the
// configured runtime.
func (h Host) crun(ctx context.Context) []Check {
	var checks []Check
	if h.Direct.Problem != "" {
		checks = []Check{{Name: "configuration", Outcome: Fail, Detail: h.Direct.Problem, Fixes: []string{"correct [worker.sandbox.crun]"}}}
	} else {
		checks = append(h.Direct.Examine(ctx), h.seccomp(), h.openFiles())
		checks = append(checks, h.directRooms(ctx)...)
	}
	for i := range checks {
		checks[i].Runtime = "crun"
	}
	return checks
}

// openFilesInside is RLIMIT_NOFILE of a crun sandbox.
const openFilesInside = 4096

// openFiles looks at the limit that the program has to stay below unless it may
// raise it.
func (h Host) openFiles() Check {
	const name = "open files"
	limit := h.OpenFiles
	if limit == 0 {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			return Check{Name: name, Outcome: Caution, Detail: fmt.Sprintf("the limit can't be read: %v", err)}
		}
		limit = r.Max
	}
	if limit < openFilesInside {
		return Check{
			Name: name, Outcome: Caution, Detail: fmt.Sprintf("the hard limit is %d and a sandbox has %d; where the worker may not raise it (CAP_SYS_RESOURCE) a sandbox has no more either", limit, openFilesInside),
			Fixes: []string{fmt.Sprintf("raise it for the worker (ulimit -Hn %d, LimitNOFILE= in its unit)", openFilesInside)},
		}
	}
	return Check{Name: name, Outcome: Pass, Detail: fmt.Sprintf("the hard limit is %d", limit)}
}

func (h Host) directRooms(ctx context.Context) []Check {
	if h.Sandbox.Runtime != "crun" {
		return []Check{{Name: "rooms", Outcome: Skipped, Detail: "runtime crun is not the configured one"}}
	}
	if len(h.Rooms) == 0 {
		return []Check{noScanner()}
	}
	var checks []Check
	for _, r := range h.Rooms {
		checks = append(checks, h.Direct.CheckRoom(ctx, r))
	}
	return checks
}
