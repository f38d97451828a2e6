package stage

import (
	"golang.org/x/sys/unix"
)

// limit is one of a scanner's limits as the kernel takes it.
type limit struct {
	resource uintptr
	value    unix.Rlimit
}

// usualFiles is the soft limit of open files that programs are started with
// wherever nobody says otherwise.
const usualFiles = 1024

// limitsOf are the limits that job's scanner gets. They are worked out here,
// from this program's own, which its child starts with.
func limitsOf(job Job) ([]limit, error) {
	var list []limit
	for _, l := range []struct {
		resource int
		soft     int64
		spare    int64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_FSIZE, job.FileSize, 0},
		{unix.RLIMIT_NOFILE, job.OpenFiles, 0},
		{unix.RLIMIT_NPROC, job.Processes, 0},
		// At the soft limit the kernel sends SIGXCPU, which says what
		// happened; at the hard one, a second later, SIGKILL.
		{unix.RLIMIT_CPU, job.CPU, 1},
		{unix.RLIMIT_AS, job.AddressSpace, 0},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return nil, err
		}
		switch {
		case l.soft >= 0:
			list = append(list, limit{uintptr(l.resource), lowered(now, uint64(l.soft), uint64(l.spare))})
		case l.resource == unix.RLIMIT_NOFILE:
			// Go has raised the soft limit, for itself alone.
			list = append(list, limit{uintptr(l.resource), unix.Rlimit{Cur: min(now.Cur, usualFiles), Max: now.Max}})
		}
	}
	return list, nil
}

// lowered is a limit, or what it is already where that is lower: only a
// privileged process may raise a hard limit, and a tighter one is no weaker
// wall.
func lowered(now unix.Rlimit, soft, spare uint64) unix.Rlimit {
	return unix.Rlimit{Cur: min(soft, now.Max), Max: min(soft+spare, now.Max)}
}
