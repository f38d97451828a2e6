package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// unfinished is how old a directory without an owner.json must be before it
// counts as left behind instead of as being made.
const unfinished = time.Minute

// Sweep removes run directories that nobody uses any more: those of
// policy.Worker at any age, and those of anybody that are older than
// policy.OlderThan past their deadline, unless that is zero. A directory whose
// lock is held has a live owner and is never touched, whatever its age.
func (s *Store) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	entries, err := os.ReadDir(s.config.Parent)
	if errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("listing run directories: %w", err)
	}
	var faults []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if !strings.HasPrefix(e.Name(), dirPrefix) || !e.IsDir() {
			continue
		}
		orphan, err := s.sweepOne(e.Name(), policy)
		if err != nil {
			faults = append(faults, err)
		}
		if orphan != nil {
			report.Removed = append(report.Removed, *orphan)
		}
	}
	return report, errors.Join(faults...)
}

func (s *Store) sweepOne(name string, policy sandbox.SweepPolicy) (*sandbox.Orphan, error) {
	path := filepath.Join(s.config.Parent, name)
	lock, err := lockDir(path)
	if err != nil {
		// In use, already gone, or not this user's.
		return nil, nil
	}
	defer lock.Close()
	info, err := lock.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", path, err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return nil, nil
	}
	orphan := &sandbox.Orphan{Kind: "directory", Name: name}
	if !isOrphan(lock, info, policy, orphan) {
		return nil, nil
	}
	if !s.config.Unwatched {
		process.KillRun(filepath.Join(path, "work"))
	}
	if err := s.remove(path); err != nil {
		return nil, err
	}
	return orphan, nil
}

// isOrphan decides about a directory that nobody holds, and completes orphan.
func isOrphan(lock *os.File, info fs.FileInfo, policy sandbox.SweepPolicy, orphan *sandbox.Orphan) bool {
	o, err := readOwner(lock)
	if err != nil {
		o = owner{Created: info.ModTime(), Deadline: info.ModTime().Add(unfinished)}
	}
	orphan.Worker, orphan.Age = o.Worker, time.Since(o.Created)
	if o.Worker != "" && o.Worker == policy.Worker {
		return true
	}
	return policy.OlderThan > 0 && time.Since(o.Deadline) > policy.OlderThan
}
