package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Sweep implements sandbox.Runtime. It removes containers, then networks, then
// run directories and bundles: each is of no use without what was before it.
// What one kind can't be asked for does not keep the others.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	var faults []error
	sweepers := []func(context.Context, sandbox.SweepPolicy) (sandbox.SweepReport, error){r.sweepEngine}
	if r.config.Hop != nil {
		sweepers = append(sweepers, r.config.Hop.Sweep)
	}
	for _, sweep := range append(sweepers, r.sweepDirectories) {
		part, err := sweep(ctx, policy)
		report.Removed = append(report.Removed, part.Removed...)
		if err != nil {
			faults = append(faults, err)
		}
	}
	return report, swept(faults)
}

// swept is the error of a sweep, or nil: the one fault that there was, or all of
// them under the kind and code of the first that has any.
func swept(faults []error) error {
	switch len(faults) {
	case 0:
		return nil
	case 1:
		if e, is := faults[0].(*sandbox.Error); is { //nolint:errorlint // one that wraps nothing of what was met besides
			e.Runtime = Name
			return e
		}
	}
	err := errors.Join(faults...)
	first := fail.Of(err)
	return &sandbox.Error{Kind: first.Kind, Code: first.Code, Runtime: Name, Detail: "sweeping", Err: err, Hint: first.Hint}
}

// sweepEngine removes containers and networks.
func (r *Runtime) sweepEngine(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	h, fault := r.engine.find(ctx)
	if fault != nil {
		return report, fault
	}
	var faults []error
	for _, kind := range []struct {
		name   string
		list   func(context.Context, *host) ([]labelled, error)
		remove func(context.Context, *host, string) error
	}{
		{"container", r.listContainers, r.remove},
		{"network", r.listNetworks, r.removeNetwork},
	} {
		found, err := kind.list(ctx, h)
		if err != nil {
			faults = append(faults, fmt.Errorf("listing %ss: %w", kind.name, err))
			continue
		}
		for _, l := range found {
			if r.names.has(l.name) || !l.isOrphan(policy) {
				continue
			}
			if err := kind.remove(ctx, h, l.id); err != nil {
				faults = append(faults, fmt.Errorf("removing the %s %s: %w", kind.name, l.name, err))
				continue
			}
			report.Removed = append(report.Removed, l.orphan(kind.name))
		}
	}
	return report, errors.Join(faults...)
}

// labelled is a container or a network of some worker.
type labelled struct {
	id, name, worker  string
	created, deadline time.Time
}

// isOrphan asks the two questions: whose is it, and how old.
func (l labelled) isOrphan(policy sandbox.SweepPolicy) bool {
	if l.worker == policy.Worker && l.worker != "" {
		return true
	}
	return policy.OlderThan > 0 && time.Since(l.deadline) > policy.OlderThan
}

func (l labelled) orphan(kind string) sandbox.Orphan {
	return sandbox.Orphan{Kind: kind, Name: l.name, Worker: l.worker, Age: time.Since(l.created)}
}

// sweepDirectories removes run directories. What a rootless engine gave to
// other uids is taken back first.
func (r *Runtime) sweepDirectories(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	if !root() && r.config.Engine == Podman {
		if err := r.reclaimLeft(ctx); err != nil {
			return sandbox.SweepReport{}, err
		}
	}
	return r.store.Sweep(ctx, policy)
}

// reclaimLeft takes back the work directories of runs whose owner is dead.
func (r *Runtime) reclaimLeft(ctx context.Context) error {
	work, err := filepath.Glob(filepath.Join(r.config.RunDir, namePrefix[:len(namePrefix)-1]+"~*", "work"))
	if err != nil {
		return err
	}
	var faults []error
	for _, dir := range work {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || strings.Contains(dir, "\x00") {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) == os.Geteuid() {
			continue
		}
		faults = append(faults, r.reclaimOne(ctx, dir))
	}
	return errors.Join(faults...)
}

// reclaimOne takes one back, unless its run's owner still holds the lock.
func (r *Runtime) reclaimOne(ctx context.Context, work string) error {
	lock, err := os.OpenFile(filepath.Dir(work), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		// Another user's.
		return nil
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	h, fault := r.engine.find(ctx)
	if fault != nil {
		return fault
	}
	return r.reclaim(ctx, h, work)
}
