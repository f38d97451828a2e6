package stage

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// Failure is a step of a child that could not become a scanner.
type Failure struct {
	Step  Step
	Errno syscall.Errno
}

// Error says what the child was doing.
func (f *Failure) Error() string { return f.Step.String() + ": " + f.Errno.Error() }

// Unwrap returns the Errno.
func (f *Failure) Unwrap() error { return f.Errno }

// Start starts job's program in a session of its own, behind its limits, no
// new privileges and the filter. It returns when the program has begun; a
// *Failure says why it could not, and leaves no process behind.
func Start(job Job, stdio [3]uintptr) (pid int, err error) {
	o, err := orderOf(job, stdio)
	if err != nil {
		return 0, err
	}
	pid, err = o.start()
	if o.step == StepDescriptors && o.sealAll() == nil {
		pid, err = o.start()
	}
	return pid, err
}

// forking is held while a child changes what it shares with its parent.
var forking sync.Mutex

// start makes one attempt.
func (o *order) start() (int, error) {
	var err error
	if o.domain, err = o.makeDomain(); err != nil {
		return 0, &Failure{StepScope, errno(err)}
	}
	if o.domain != noDomain {
		defer func() { _ = unix.Close(o.domain) }()
	}
	o.step, o.errno = 0, 0
	forking.Lock()
	pid, errno := fork(o)
	forking.Unlock()
	runtime.KeepAlive(o)
	if errno != 0 {
		return 0, fmt.Errorf("making a process: %w", syscall.Errno(errno))
	}
	if o.step == 0 {
		return int(pid), nil
	}
	for {
		if _, err := syscall.Wait4(int(pid), nil, 0, nil); err != syscall.EINTR {
			return 0, &Failure{o.step, o.errno}
		}
	}
}

// sealAll has every descriptor of this program close on execve. Go's own all
// do; this is for those that came from whoever started it, where the child
// can't close them at once: kernels before 5.9 and some sandboxes don't know
// the call.
func (o *order) sealAll() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	o.sealed = true
	return nil
}

func orderOf(job Job, stdio [3]uintptr) (*order, error) {
	o := &order{stdio: stdio, dieWith: job.DieWith, closed: job.Closed, workDir: job.Dir}
	o.wanted = domainFor(LandlockVersion(), job.Closed)
	var err error
	if o.expendable, err = syscall.BytePtrFromString("/proc/self/oom_score_adj"); err != nil {
		return nil, err
	}
	if o.mostExpendable, err = syscall.BytePtrFromString(MostExpendable); err != nil {
		return nil, err
	}
	if o.limits, err = limitsOf(job); err != nil {
		return nil, &Failure{StepLimits, errno(err)}
	}
	if o.filter, err = seccomp.Filter(); err != nil {
		return nil, fmt.Errorf("%s: %w", StepFilter, err)
	}
	if o.program, err = syscall.BytePtrFromString(job.Program); err != nil {
		return nil, &Failure{StepExec, errno(err)}
	}
	if o.dir, err = syscall.BytePtrFromString(job.Dir); err != nil {
		return nil, &Failure{StepDirectory, errno(err)}
	}
	if o.argv, err = syscall.SlicePtrFromStrings(job.Argv); err != nil {
		return nil, &Failure{StepArguments, errno(err)}
	}
	o.env, err = syscall.SlicePtrFromStrings([]string{"HOME=" + job.Home, "PATH=" + job.Path})
	if err != nil {
		return nil, &Failure{StepArguments, errno(err)}
	}
	return o, nil
}
