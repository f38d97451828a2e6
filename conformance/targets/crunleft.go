package targets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// left lists a session's containers, run directories, cgroups and mounts.
func (b *crunBase) left(s conformance.Setup) ([]string, error) {
	var lines []string
	for dir, kind := range map[string]string{b.containers(s): "container ", b.bundles(s): "run directory "} {
		names, err := namesIn(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			// What a program keeps for all its sandboxes: runsc an empty network
			// namespace until the runtime is closed, crun the filters it has compiled.
			if name != "null-netns" && name != ".cache" {
				lines = append(lines, kind+name)
			}
		}
	}
	for _, mount := range cgroupMounts() {
		names, err := namesIn(filepath.Join(mount, b.cgroups(s)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if isDir(filepath.Join(mount, b.cgroups(s), name)) {
				lines = append(lines, "cgroup "+filepath.Join(mount, b.cgroups(s), name))
			}
		}
	}
	mounts, err := mountsBelow(b.bundles(s))
	for _, mount := range mounts {
		lines = append(lines, "mount "+mount)
	}
	return lines, err
}

func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// cgroupMounts are the hierarchies of this host.
func cgroupMounts() []string {
	if exists("/sys/fs/cgroup/cgroup.controllers") {
		return []string{"/sys/fs/cgroup"}
	}
	var list []string
	names, _ := namesIn("/sys/fs/cgroup")
	for _, name := range names {
		// Hierarchies that are mounted together have links beside them.
		if mount := filepath.Join("/sys/fs/cgroup", name); isDir(mount) {
			list = append(list, mount)
		}
	}
	return list
}

func mountsBelow(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			list = append(list, fields[4])
		}
	}
	return list, nil
}

func (b *crunBase) orphans() conformance.Orphans {
	return conformance.Orphans{Instance: "container ", Plant: b.plant, Bystanders: b.bystanders}
}

// plant leaves what a worker leaves that is killed once its container has
// ended: its run directory with a mount in it, and its cgroups. Containers that
// run on are left by the workers that the suite kills.
func (b *crunBase) plant(_ context.Context, s conformance.Setup, l wire.Label, deadline time.Time) error {
	if err := plantDirectory(b.bundles(s), l, deadline); err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(b.bundles(s), fmt.Sprintf("batlehub-sbx~%s~%s~%s~%d~planted", l.Worker, l.Job, l.Scanner, l.Attempt)))
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("the planted directory is not there: %v, %w", dirs, err)
	}
	if err := unix.Mount("planted", filepath.Join(dirs[0], "work"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m"); err != nil {
		return fmt.Errorf("planting a mount: %w", err)
	}
	name := fmt.Sprintf("batlehub-sbx-%s-%s-%d-planted", l.Job, l.Scanner, l.Attempt)
	return b.plantCgroup(s, name)
}

// plantCgroup makes a run's cgroup, with the container's in it.
func (b *crunBase) plantCgroup(s conformance.Setup, name string) error {
	var errs []error
	for _, mount := range cgroupMounts() {
		if limited(mount) {
			errs = append(errs, os.MkdirAll(filepath.Join(mount, b.cgroups(s), name, "c"), 0o755))
		}
	}
	return errors.Join(errs...)
}

// limited says whether a hierarchy is one in which the runtime sets limits.
func limited(mount string) bool {
	return mount == "/sys/fs/cgroup" || slices.Contains([]string{"cpu", "cpu,cpuacct", "memory", "pids"}, filepath.Base(mount))
}

// bystanders are directories, cgroups and containers' states that look like the
// runtime's and that no run directory tells of.
func (b *crunBase) bystanders(_ context.Context, s conformance.Setup) (conformance.Bystanders, error) {
	near, err := directoriesBeside(b.bundles(s), s)
	if err != nil {
		return near, err
	}
	name := "batlehub-sbx-o07-" + s.Token + "-bystander-1"
	if err := b.plantCgroup(s, name); err != nil {
		return near, err
	}
	state := filepath.Join(b.containers(s), name)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return near, err
	}
	out := conformance.Bystanders{Names: append(near.Names, "cgroup "+name, "the state of a container "+name)}
	out.Missing = func() ([]string, error) {
		missing, err := near.Missing()
		for _, mount := range cgroupMounts() {
			if dir := filepath.Join(mount, b.cgroups(s), name); limited(mount) && !exists(dir) {
				missing = append(missing, "cgroup "+dir)
			}
		}
		if !exists(state) {
			missing = append(missing, "the state of a container "+name)
		}
		return missing, err
	}
	out.Remove = func() error {
		errs := []error{near.Remove(), os.RemoveAll(state)}
		for _, mount := range cgroupMounts() {
			for _, dir := range []string{filepath.Join(name, "c"), name} {
				if err := unix.Rmdir(filepath.Join(mount, b.cgroups(s), dir)); err != nil && !errors.Is(err, unix.ENOENT) {
					errs = append(errs, fmt.Errorf("removing the cgroup %s: %w", dir, err))
				}
			}
		}
		return errors.Join(errs...)
	}
	return out, nil
}
