package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// leftJob is what a listing found of one job, and leftRun of one run.
type leftJob struct {
	worker, dir string
	artifact    *storage.Object
	runs        []*leftRun
}

type leftRun struct {
	dir              string
	manifest, result *storage.Object
}

// Sweep removes keys that nobody uses any more, as the leaf lists them: those
// of policy.Worker at any age, except those of runs and jobs that this Hop has
// in flight, and those of anybody that are older than policy.OlderThan past
// their run's deadline, unless that is zero. An artifact lives as long as any
// run of its job. What does not look like a bundle's key is left alone.
//
// A key's age counts from Object.Modified, which is the server's clock: a
// server that is behind makes keys look older by as much.
//
// An error is a *sandbox.Error, or an ended context's cause.
func (h *Hop) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var report sandbox.SweepReport
	jobs, err := h.list(ctx)
	if err != nil {
		return report, h.fault("", "listing bundles", err)
	}
	var faults []error
	for _, j := range jobs {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		removed, err := h.sweepJob(ctx, j, policy)
		report.Removed = append(report.Removed, removed...)
		if err != nil {
			faults = append(faults, err)
		}
	}
	return report, h.fault("", "sweeping bundles", errors.Join(faults...))
}

// list groups the keys of the leaf by job and run.
func (h *Hop) list(ctx context.Context) ([]*leftJob, error) {
	var list []*leftJob
	jobs, runs := map[string]*leftJob{}, map[string]*leftRun{}
	for o, err := range h.config.Leaf.List(ctx, h.config.Prefix) {
		if err != nil {
			return nil, err
		}
		parts := strings.Split(strings.TrimPrefix(o.Key, h.config.Prefix), "/")
		if !bundleKey(parts) {
			continue
		}
		dir := h.config.Prefix + parts[0] + "/" + parts[1]
		j := jobs[dir]
		if j == nil {
			j = &leftJob{worker: parts[0], dir: dir}
			jobs[dir] = j
			list = append(list, j)
		}
		if len(parts) == 3 {
			j.artifact = &o
			continue
		}
		runDir := dir + "/" + parts[2] + "/" + parts[3]
		r := runs[runDir]
		if r == nil {
			r = &leftRun{dir: runDir}
			runs[runDir] = r
			j.runs = append(j.runs, r)
		}
		if parts[4] == manifestName {
			r.manifest = &o
		} else {
			r.result = &o
		}
	}
	return list, nil
}

// bundleKey says whether a key is one that a Hop makes, by its parts after the
// prefix.
func bundleKey(parts []string) bool {
	switch len(parts) {
	case 3:
		return parts[2] == artifactName
	case 5:
		return parts[2] != artifactName && (parts[4] == manifestName || parts[4] == resultName)
	}
	return false
}

func (h *Hop) sweepJob(ctx context.Context, j *leftJob, policy sandbox.SweepPolicy) ([]sandbox.Orphan, error) {
	own := j.worker == policy.Worker && policy.Worker != ""
	var removed []sandbox.Orphan
	alive := false
	for _, r := range j.runs {
		orphan, err := h.isOrphan(ctx, r, own, policy)
		if orphan && err == nil {
			orphan, err = h.take(ctx, r.dir, r.keys()...)
		}
		if err != nil {
			return removed, err
		}
		if !orphan {
			alive = true
			continue
		}
		removed = append(removed, orphanOf(j, r.dir, r.modified()))
	}
	if j.artifact == nil || alive || !own && !old(j.artifact.Modified, policy) {
		return removed, nil
	}
	taken, err := h.take(ctx, j.dir, j.artifact.Key)
	if taken && err == nil {
		removed = append(removed, orphanOf(j, j.artifact.Key, j.artifact.Modified))
	}
	return removed, err
}

func orphanOf(j *leftJob, name string, modified time.Time) sandbox.Orphan {
	return sandbox.Orphan{Kind: "bundle", Name: name, Worker: j.worker, Age: time.Since(modified)}
}

func old(t time.Time, policy sandbox.SweepPolicy) bool {
	return policy.OlderThan > 0 && time.Since(t) > policy.OlderThan
}

// isOrphan asks whose the run is and how old. Its deadline is read only if it
// could have passed.
func (h *Hop) isOrphan(ctx context.Context, r *leftRun, own bool, policy sandbox.SweepPolicy) (bool, error) {
	if own {
		return true, nil
	}
	if !old(r.modified(), policy) {
		return false, nil
	}
	bounds, err := h.bounds(ctx, r)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil // removed by its own worker meanwhile
	}
	return old(r.modified().Add(bounds), policy), err
}

// bounds is how long a run may take after its manifest was stored, as that
// says. A result without a manifest is of a run that is over, and a manifest
// that says nothing counts as one.
func (h *Hop) bounds(ctx context.Context, r *leftRun) (time.Duration, error) {
	if r.manifest == nil {
		return 0, nil
	}
	body, _, err := h.config.Leaf.Get(ctx, r.manifest.Key)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, wire.ManifestCap))
	if err != nil {
		return 0, err
	}
	// Another release's manifest has these two as well.
	var m struct {
		FetchMS   int64 `json:"fetch_ms"`
		TimeoutMS int64 `json:"timeout_ms"`
	}
	if json.Unmarshal(b, &m) != nil {
		return 0, nil
	}
	const day = 24 * time.Hour
	return min(max(time.Duration(m.FetchMS)*time.Millisecond, 0), day) +
		min(max(time.Duration(m.TimeoutMS)*time.Millisecond, 0), day), nil
}

// modified is when the run began, as far as its keys say.
func (r *leftRun) modified() time.Time {
	if r.manifest != nil {
		return r.manifest.Modified
	}
	return r.result.Modified
}

func (r *leftRun) keys() []string {
	var keys []string
	for _, o := range []*storage.Object{r.manifest, r.result} {
		if o != nil {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// take removes the keys of a directory unless it is in use here, and keeps it
// from being used meanwhile.
func (h *Hop) take(ctx context.Context, dir string, keys ...string) (bool, error) {
	h.mu.Lock()
	if h.runs[dir] != nil || h.jobs[dir] != nil || h.going[dir] != nil {
		h.mu.Unlock()
		return false, nil
	}
	gone := make(chan struct{})
	h.going[dir] = gone
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.going, dir)
		h.mu.Unlock()
		close(gone)
	}()
	return true, h.remove(ctx, keys...)
}
