package heavy

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/oci"
)

// deed is what somebody does while a run is on its way.
type deed string

const (
	nothing    deed = "nothing"
	sweeping   deed = "a sweep"
	noStorage  deed = "the storage is killed"
	noDaemon   deed = "the docker daemon is killed"
	noCommand  deed = "the engine's command is killed"
	noConmon   deed = "conmon is killed"
	noRunc     deed = "runc is killed"
	noInit     deed = "the container's first process is killed"
	deedWindow      = 1200 * time.Millisecond // after the run's beginning
	downWindow      = 1500 * time.Millisecond // until what was killed is back
)

// deeds are what can be done to a run, as often as each is to be done.
func (s *stage) deeds() []deed {
	list := []deed{nothing, nothing, sweeping, noCommand, noRunc, noInit, noInit}
	if s.engine.Name == oci.Docker {
		list = append(list, noDaemon, noDaemon)
	} else {
		list = append(list, noConmon, noConmon)
	}
	if s.hop != nil {
		list = append(list, noStorage, noStorage)
	}
	return list
}

// do does a deed at some time in a run, which ends with ctx. What it takes down
// is up again when it returns. done says whether there was something to do it
// to.
func (s *scene) do(ctx context.Context, g *stage, d deed, random *rand.Rand) (done bool, err error) {
	at, down := time.NewTimer(time.Duration(random.Int64N(int64(deedWindow)))), time.Duration(random.Int64N(int64(downWindow)))
	defer at.Stop()
	select {
	case <-at.C:
	case <-ctx.Done():
		return false, nil
	}
	switch d {
	case nothing:
	case sweeping:
		_, err = g.sweep(ctx)
		if ctx.Err() != nil {
			err = nil
		}
	case noStorage:
		s.serverUp.Lock()
		defer s.serverUp.Unlock()
		s.server.Kill()
		<-time.After(down)
		err = s.server.Resume(context.Background())
	case noDaemon:
		s.daemonUp.Lock()
		defer s.daemonUp.Unlock()
		s.daemon.Kill()
		<-time.After(down)
		err = s.daemon.Resume(context.Background())
	default:
		return s.murder(ctx, g, d, random), nil
	}
	return true, err
}

// murder kills one process of the deed's kind, as soon as there is one.
func (s *scene) murder(ctx context.Context, g *stage, d deed, random *rand.Rand) bool {
	again := time.NewTicker(15 * time.Millisecond)
	defer again.Stop()
	for {
		all := processes()
		victims := slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return !p.is(g, d, all) })
		if len(victims) > 0 && victims[random.IntN(len(victims))].kill() {
			return true
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
}

// proc is one process of this host.
type proc struct {
	pid, parent int
	name        string
	line        string // NUL-terminated arguments
}

func (p proc) String() string {
	return fmt.Sprintf("%d (%s) %.300q", p.pid, p.name, p.line)
}

// processes are all that can be read.
func processes() []proc {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	var list []proc
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		stat, err := os.ReadFile(entry + "/stat")
		line, lineErr := os.ReadFile(entry + "/cmdline")
		if err != nil || lineErr != nil || pid == os.Getpid() {
			continue
		}
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		if fields[0] == "Z" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		list = append(list, proc{pid, parent, string(stat[open+1 : end]), string(line)})
	}
	return list
}

// is says whether a process is the stage's engine's own and of the kind that a
// deed is done to.
func (p proc) is(g *stage, d deed, all []proc) bool {
	ours := strings.Contains(p.line, g.engine.Dir)
	switch d {
	case noCommand:
		return p.name == g.engine.Name && strings.Contains(p.line, g.worker)
	case noConmon:
		return ours && p.name == "conmon"
	case noRunc:
		return ours && strings.HasPrefix(p.name, "runc") && !strings.HasPrefix(p.line, "runc\x00init")
	case noInit:
		return slices.ContainsFunc(all, func(parent proc) bool {
			return parent.pid == p.parent && strings.Contains(parent.line, g.engine.Dir) &&
				(parent.name == "conmon" || strings.HasPrefix(parent.name, "containerd-shim")) && !strings.HasPrefix(p.name, "runc")
		})
	}
	return false
}

// kill kills the process, if it is still the one that was seen.
func (p proc) kill() bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	return err == nil && string(line) == p.line && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// leftRunning are processes of the scene's that are none of its servers.
func (s *scene) leftRunning() []string {
	var list []string
	all := processes()
	for _, p := range all {
		if p.isForgotten(all) {
			continue
		}
		if p.name == "dockerd" || p.name == "containerd" || p.name == "minio" {
			continue
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if s.owns(p.line) || s.owns(string(environ)) || strings.Contains(p.line, "batlehub-sbx-chaos") {
			list = append(list, "process "+p.String())
			continue
		}
		// A container's own processes are told by where they are rooted.
		mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p.pid))
		if root, _, ok := strings.Cut(string(mounts), "\n"); ok && s.owns(root) && !strings.Contains(root, " / / ") {
			list = append(list, "process "+p.String())
		}
	}
	return list
}

// isForgotten says whether a process is a shim without a container, or with one
// that was never started, or that container's. A daemon that is killed while it
// starts one leaves them, and no command of docker's knows of them or could end
// them.
func (p proc) isForgotten(all []proc) bool {
	if p.isUnstarted() {
		return slices.ContainsFunc(all, func(parent proc) bool { return parent.pid == p.parent && parent.isForgotten(all) })
	}
	return strings.HasPrefix(p.name, "containerd-shim") &&
		!slices.ContainsFunc(all, func(c proc) bool { return c.parent == p.pid && !c.isUnstarted() })
}

// isUnstarted says whether a process waits in runc for a start that never comes.
func (p proc) isUnstarted() bool { return strings.HasPrefix(p.line, "runc\x00init") }

func (s *scene) owns(text string) bool {
	return strings.Contains(text, s.podman.Dir) || strings.Contains(text, s.daemon.Dir) || strings.Contains(text, s.dir)
}
