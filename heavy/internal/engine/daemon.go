package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/child"
)

// upTime bounds how long a daemon may take to come up, and to end.
const upTime = 90 * time.Second

// Daemon is a docker daemon of the test's own. It has no default bridge and
// touches no firewall: two daemons in one network namespace take those from
// each other.
type Daemon struct {
	Engine
	process *child.Process
}

// Docker starts a daemon, which ends with the test.
func Docker(t testing.TB) *Daemon {
	t.Helper()
	needRoot(t, "docker", "dockerd")
	d := &Daemon{Engine: Engine{Name: "docker", Dir: newDir(t, "docker")}}
	d.Env = []string{"DOCKER_HOST=unix://" + d.path("sock")}
	t.Cleanup(func() {
		d.end()
		if err := remove(d.Dir); err != nil {
			t.Error(err)
		}
	})
	if err := d.Resume(t.Context()); err != nil {
		t.Skipf("not run: dockerd does not start here: %v", err)
	}
	return d
}

func (d *Daemon) path(name string) string { return filepath.Join(d.Dir, name) }

// Kill ends the daemon at once, as a crash would. Its containers go on.
func (d *Daemon) Kill() {
	if d.process != nil {
		d.process.Kill()
	}
}

// Resume starts the daemon again where it was.
func (d *Daemon) Resume(ctx context.Context) error {
	d.Kill()
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	// A daemon that finds its containerd still busy with what was left gives up
	// after 15 s, and is started again as a service would be.
	for {
		err := d.start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// start starts the daemon once and waits for it.
func (d *Daemon) start(ctx context.Context) error {
	_ = os.Remove(d.path("pid"))
	cmd := exec.Command("dockerd", "--data-root", d.path("data"), "--exec-root", d.path("exec"), "--pidfile", d.path("pid"),
		"-H", "unix://"+d.path("sock"), "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-masq=false")
	var err error
	if d.process, err = child.Start(cmd, d.path("log")); err != nil {
		return err
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err = d.Say(ctx, nil, "version", "--format", "{{.Server.Version}}"); err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-d.process.Done():
			return fmt.Errorf("dockerd ended: %s", d.log())
		case <-ctx.Done():
			return fmt.Errorf("dockerd did not come up: %w: %s", errors.Join(err, ctx.Err()), d.log())
		}
	}
}

// end asks the daemon to end, which takes its containers with it.
func (d *Daemon) end() {
	if d.process == nil {
		return
	}
	d.process.Signal(syscall.SIGTERM)
	select {
	case <-d.process.Done():
	case <-time.After(upTime):
		d.process.Kill()
	}
}

// log is the end of what the daemon said, without its talk about connections.
func (d *Daemon) log() string {
	b, _ := os.ReadFile(d.path("log"))
	var lines []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "module=grpc") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
