package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// empty is how long killed processes may take to be gone, and how long their
// cgroups may be busy.
const empty = 10 * time.Second

// kill kills everything in the run's cgroup, in whichever hierarchy it is.
func (g group) kill() { g.killIn("") }

// killContainer kills everything in the container's own cgroup.
func (g group) killContainer() { g.killIn(container) }

func (g group) killIn(part string) {
	if !g.layout.isV1() && set(path.Join(g.dir(g.layout.v2), part, "cgroup.kill"), "1") == nil {
		return
	}
	for _, mount := range g.layout.all {
		for _, pid := range processes(path.Join(g.dir(mount), part)) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// processes are the pids in a cgroup and below it.
func processes(dir string) []int {
	var pids []int
	_ = walk(dir, func(dir string) error {
		b, err := os.ReadFile(path.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // it went away
		}
		for field := range strings.FieldsSeq(string(b)) {
			// What is in another pid namespace is shown as 0.
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// walk visits a cgroup and those below it, children first.
func walk(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := walk(path.Join(dir, e.Name()), visit); err != nil {
				return err
			}
		}
	}
	return visit(dir)
}

// remove ends what is left in the run's cgroup, removes it from every
// hierarchy and sees it gone. A cgroup that stays is an error.
func (g group) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, empty)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := g.rmdir()
		if err == nil {
			return nil
		}
		g.kill()
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the cgroup %s: %w", path.Join("/", g.parent, g.run), err)
		case <-tick.C:
		}
	}
}

// removeEmpty removes the run's cgroups without a look at what is in them, and
// says whether there were any and all are gone. The kernel keeps those in which
// something runs, so that nothing does in a run whose cgroups could go.
func (g group) removeEmpty() bool {
	if g.run == "" {
		return false
	}
	found := false
	for _, mount := range g.layout.all {
		dir := g.dir(mount)
		for _, dir := range []string{path.Join(dir, container), dir} {
			err := unix.Rmdir(dir)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return false
			}
			found = found || err == nil
		}
	}
	return found
}

func (g group) rmdir() error {
	if g.run == "" {
		return errors.New("a cgroup without a name")
	}
	var faults []error
	for _, mount := range g.layout.all {
		faults = append(faults, walk(g.dir(mount), func(dir string) error {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				return nil
			}
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}))
	}
	return errors.Join(faults...)
}

// removeParent removes the cgroup of all runs where nobody has a run in it.
func (l layout) removeParent(parent string) {
	for dir := parent; dir != "."; dir = path.Dir(dir) {
		for _, mount := range l.all {
			_ = unix.Rmdir(path.Join(mount, dir))
		}
	}
}
