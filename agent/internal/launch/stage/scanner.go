package stage

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/signals"
	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// becomeScanner sets what the scanner alone must have and executes it. The
// order is the one that RFC 0022 §6.2 gives: limits, filter, exec.
func becomeScanner(args []string) {
	job, ok := parseJob(args)
	if !ok {
		fail(StepArguments, syscall.EINVAL)
	}
	// What the agent ignores, a scanner must not have to.
	signals.Default()
	must(StepDescriptors, closeDescriptors())
	if job.DieWith >= 0 {
		must(StepParent, dieWith(job.DieWith))
	}
	must(StepDirectory, syscall.Chdir(job.Dir))
	must(StepLimits, setLimits(job))
	must(StepPrivileges, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	must(StepFilter, seccomp.Install())
	env := []string{"HOME=" + job.Home, "PATH=" + job.Path}
	fail(StepExec, syscall.Exec(job.Program, job.Argv, env))
}

// closeDescriptors leaves the scanner its own three. The report's closes by
// itself on execve.
func closeDescriptors() error {
	unix.CloseOnExec(fdReport)
	err := unix.CloseRange(fdReport+1, ^uint(0)>>1, 0)
	if err == nil {
		return nil
	}
	// Kernels before 5.9 and some sandboxes don't know the call. Every
	// descriptor of a Go program closes on exec; this is for those that came
	// from whoever started it.
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, ok := number(name); ok && fd > fdReport {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func number(s string) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' || n > 1<<24 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, s != ""
}

// dieWith has the kernel kill the scanner when the thread that started it
// dies. A keeper starts it on its main thread, which lives as long as the
// keeper does.
func dieWith(parent int64) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	// A parent that died before would never be noticed.
	if int64(os.Getppid()) != parent {
		return unix.ESRCH
	}
	return nil
}
