package doctor

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// tryTimeout is how long a sandbox around nothing may take; it takes ten
// milliseconds.
const tryTimeout = 3 * time.Second

// try makes a sandbox around bwrap's own --version, over this host's root, as
// uid where that is not 0. The thread is kept, because the child's death
// signal comes with the end of the thread that started it.
func try(ctx context.Context, path string, uid int) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, //nolint:gosec // the configured program
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1",
		"--uid", "65532", "--gid", "65532", "--cap-drop", "ALL", "--clearenv",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", path, "--version")
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}
	}
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return stderr.String(), errors.New("it did not end in time")
	case err == nil && stdout.Len() == 0:
		return stderr.String(), errors.New("it exited 0, but nothing ran in the sandbox")
	}
	return stderr.String(), err
}

// limited keeps the first bytes written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	const limit = 8 << 10
	if room := limit - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
