package stage

import (
	"golang.org/x/sys/unix"
)

// setLimits sets the scanner's limits. The address space comes last: this
// program has reserved more than most scanners may, and could not map another
// page after it.
func setLimits(job Job) error {
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
		if l.soft < 0 {
			continue
		}
		if err := lower(l.resource, uint64(l.soft), uint64(l.spare)); err != nil {
			return err
		}
	}
	return nil
}

// lower sets a limit, or leaves one that is lower already: only a privileged
// process may raise a hard limit, and a tighter one is no weaker wall.
func lower(resource int, soft, spare uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: min(soft, now.Max), Max: min(soft+spare, now.Max)})
}
