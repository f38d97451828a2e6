package crun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

// patience is how long the end of one container may take in all.
const patience = 45 * time.Second

// end removes what is left of a container: its processes, the program's state
// of it and its cgroups, which are below parent. It sees them gone.
func (r *Runtime) end(ctx context.Context, f Flavour, name, parent string) error {
	l, fault := r.host.layout(f)
	if fault != nil {
		// Nothing was ever started on a host without cgroups.
		l = layout{}
	}
	g := group{layout: l, parent: parent, run: name}
	root := r.rootDir(f)
	var verbs error
	// All that a delete would do for a container of runc's in which nothing runs
	// any more is what is done here.
	if stateOf(root, name) != nil && (f != Runc || !g.removeEmpty()) {
		verbs = r.endByName(ctx, f, name, g)
	}
	if err := g.remove(ctx); err != nil {
		return errors.Join(err, verbs)
	}
	if parent != r.config.CgroupParent {
		l.removeParent(parent) // which is of an older configuration
	}
	// With the cgroup everything that ran is gone, and what is left of the
	// state tells of nothing.
	for _, path := range stateOf(root, name) {
		if err := rmtree.Remove(path); err != nil {
			return errors.Join(err, verbs)
		}
	}
	if verbs != nil && fault != nil {
		return verbs
	}
	return nil
}

// endByName has the program kill and delete the container, and then say that
// it knows it no more.
func (r *Runtime) endByName(ctx context.Context, f Flavour, name string, g group) error {
	p, fault := r.finder.find(ctx, r.config.Program)
	if fault != nil {
		return fault
	}
	if p.flavour != f {
		return fmt.Errorf("the container %s is %s's, and %s is %s", name, f, p.path, p.flavour)
	}
	p.root = r.rootDir(f)
	killed, err := p.call(ctx, killArgs(name)...)
	if err == nil && killed.Status == 0 {
		g.awaitEmpty(ctx, grace)
	}
	_, err2 := p.call(ctx, deleteArgs(name)...)
	exit, err3 := p.call(ctx, stateArgs(name)...)
	if err := errors.Join(err, err2, err3); err != nil {
		return fmt.Errorf("deleting the container %s: %w", name, err)
	}
	if exit.Status == 0 {
		return fmt.Errorf("deleting the container %s: it is still there", name)
	}
	return nil
}

// stateOf are the files and directories that a program keeps for a container:
// <root>/<name> for crun and runc, and <root>/<name>_… for runsc, with a socket
// that stays when a sandbox is killed while it starts.
func stateOf(root, name string) []string {
	found := otherSockets(name)
	entries, err := os.ReadDir(root)
	if err != nil {
		return found
	}
	for _, e := range entries {
		if e.Name() == name || strings.HasPrefix(e.Name(), name+"_") || e.Name() == socketName(name) {
			found = append(found, filepath.Join(root, e.Name()))
		}
	}
	return found
}

// cgroupParentOf is the cgroup that the run of a directory has its own in, as
// the run itself has written it: a killed worker's may be another than this
// one's. A run without it has not come to have a cgroup.
func (r *Runtime) cgroupParentOf(dir, name string) string {
	b, err := bundle.ReadFile(filepath.Join(dir, "config.json"), configCap)
	var config struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if err != nil || json.Unmarshal(b, &config) != nil {
		return r.config.CgroupParent
	}
	parent, ok := parentIn(config.Linux.CgroupsPath, name)
	if !ok {
		return r.config.CgroupParent
	}
	return parent
}

// configCap is how long a config.json may be; it has some 20 KiB.
const configCap = 4 << 20

// parentIn is what group.path has made of the parent, relative as that is. What
// it has not made is none.
func parentIn(cgroupsPath, name string) (string, bool) {
	parent, ok := strings.CutSuffix(cgroupsPath, "/"+path.Join(name, container))
	if !ok || !path.IsAbs(parent) || path.Clean(parent) != parent || parent == "/" {
		return "", false
	}
	return parent[1:], true
}

// grace is how long a container that was killed by name may take to be gone
// before it is ended in other ways.
const grace = 5 * time.Second

// awaitEmpty waits until nothing runs in the cgroup, and says whether that is
// so.
func (g group) awaitEmpty(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for g.populated() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// populated says whether anything runs in the cgroup, in any hierarchy.
func (g group) populated() bool {
	for _, mount := range g.layout.all {
		if len(processes(g.dir(mount))) > 0 {
			return true
		}
	}
	return false
}
