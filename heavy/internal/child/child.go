// Package child starts servers that tests kill: each ends with the test's own
// process, whatever ends that.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is one child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts cmd with what it prints appended to the file log.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer f.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return p, <-started
}

// Done is closed once the child is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the child at once, as a crash would, and sees it gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends the child a signal, if it is still there.
func (p *Process) Signal(s syscall.Signal) {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(s)
	}
}
