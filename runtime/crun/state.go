package crun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The state directory:
//
//	<state>/<flavour>/bundles/batlehub-sbx~<worker>~<job>~<scanner>~<attempt>~<random>/
//	    config.json   the OCI bundle
//	    owner.json    whose it is and until when, for the sweep
//	    in/           the inputs, bound read-only at /bundle
//	    work/         a small tmpfs, bound at /out
//	<state>/<flavour>/run/    the program's own state (its --root)
//
// Besides the containers' states, crun since 1.9 keeps the filters that it has
// compiled in run/.cache, and runsc a network namespace in run/null-netns.
// Each flavour has its own part, so that one never finds another's containers.
// Nothing in it can be listed by others, and what the root of a sandbox has to
// reach it may pass through.

func (r *Runtime) bundlesDir(f Flavour) string {
	return filepath.Join(r.config.StateDir, string(f), "bundles")
}

func (r *Runtime) rootDir(f Flavour) string {
	return filepath.Join(r.config.StateDir, string(f), "run")
}

// store makes the run directories of one flavour.
func (r *Runtime) store(f Flavour) *bundle.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stores[f]; s != nil {
		return s
	}
	s := bundle.NewStore(bundle.Config{
		Runtime: Name, Parent: r.bundlesDir(f),
		UID: int(r.config.UsernsBase + r.uid), GID: int(r.config.UsernsBase + r.gid),
		Passable: true, Unwatched: true,
		Prepare: r.mountOut,
		Release: func(dir string) error { return r.release(f, dir) },
	})
	r.stores[f] = s
	return s
}

// outSize is what fits in /out: the manifest, and the result while it takes
// the place of what a scanner may have put there.
const outSize = wire.ManifestCap + 2*wire.ResultTarCap

// outInodes is how many files fit there.
const outInodes = 1024

// mountOut puts a tmpfs on a run's work directory, the one that a sandbox can
// write, so that nothing in it can fill the host's disk.
func (r *Runtime) mountOut(work string) error {
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d",
		outSize, outInodes, r.config.UsernsBase+r.uid, r.config.UsernsBase+r.gid)
	if err := unix.Mount("batlehub-sandbox", work, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return &os.PathError{Op: "mounting a tmpfs on", Path: work, Err: err}
	}
	return nil
}

// unmount takes the mount from a run's work directory, if there is one.
func unmount(work string) error {
	err := unix.Unmount(work, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(work, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "unmounting", Path: work, Err: err}
}

// forget removes what runsc keeps for all sandboxes of a state directory, a
// pinned network namespace without anything in it, once there is no sandbox.
func (r *Runtime) forget() error {
	root := r.rootDir(Runsc)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || entries[0].Name() != nullNetNS {
		return nil //nolint:nilerr // there is nothing, or it is in use
	}
	pin := filepath.Join(root, nullNetNS)
	// Sandboxes that started at once have each pinned one.
	for {
		err := unix.Unmount(pin, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) {
			return os.Remove(pin)
		}
		if err != nil {
			return &os.PathError{Op: "unmounting", Path: pin, Err: err}
		}
	}
}

const nullNetNS = "null-netns"

// release ends what is left of a run before its directory is removed: its
// container, its cgroup, its mount. It has a context of its own, because it
// also runs when the run's has ended. What it can't remove is an error, and
// the sweep's to try again.
func (r *Runtime) release(f Flavour, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range r.namesOf(f, dir) {
		if err := r.end(ctx, f, name, r.cgroupParentOf(dir, name)); err != nil {
			return err
		}
	}
	return unmount(filepath.Join(dir, "work"))
}
