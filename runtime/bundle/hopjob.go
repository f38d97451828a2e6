package bundle

import (
	"context"
	"errors"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// job is what all runs of one job share.
type job struct {
	runs int // in flight
	// closed: CloseJob was called while runs were in flight.
	closed bool
	// touched: an upload was begun, so the artifact's key may exist.
	touched bool
	// upload is the one that runs share; nil if there was none, or it failed.
	upload *upload
	// last is closed once the latest upload is over, whoever gave up on it.
	last chan struct{}
}

// upload is one artifact on its way to its key. It belongs to no run: the run
// that began it may end before those that came to wait for it.
type upload struct {
	artifact sandbox.Artifact
	waiters  int
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // once done is closed
}

// artifactName is the last part of the key of a job's artifact.
const artifactName = "artifact"

func artifactKey(jobDir string) string { return jobDir + "/" + artifactName }

// provide sees to it that the artifact of m's job stands at its key: it
// uploads it, waits for another run's upload, or looks that what was uploaded
// still stands.
func (h *Hop) provide(ctx context.Context, m *Remote) error {
	for {
		u, err := h.join(m)
		if err != nil {
			return err
		}
		stood := isClosed(u.done)
		err = h.await(ctx, m, u)
		if err != nil || !stood {
			return err
		}
		// Another worker's sweep may have taken it between two runs.
		stands, err := h.stands(ctx, m)
		if stands || err != nil {
			return err
		}
		h.forget(m.jobDir, u)
	}
}

var errOtherArtifact = errors.New("the job has another artifact already; a job's runs share one")

// join enters m among those that wait for its job's upload, which it begins if
// there is none.
func (h *Hop) join(m *Remote) (*upload, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[m.jobDir]
	switch {
	case h.closed:
		return nil, errHopClosed
	case j.upload == nil:
		j.upload = h.begetUpload(j, m)
	case !sameArtifact(j.upload.artifact, m.request.Artifact):
		return nil, errOtherArtifact
	}
	j.upload.waiters++
	return j.upload, nil
}

func (h *Hop) begetUpload(j *job, m *Remote) *upload {
	ctx, cancel := context.WithCancel(h.life)
	u := &upload{artifact: m.request.Artifact, cancel: cancel, done: make(chan struct{})}
	before := j.last
	j.last, j.touched = u.done, true
	go func() {
		defer close(u.done)
		defer cancel()
		if before != nil {
			<-before
		}
		if u.err = h.store(ctx, m.jobDir, u.artifact); u.err != nil {
			h.forget(m.jobDir, u)
		}
	}()
	return u
}

// await waits for u, and ends it if nobody else waits any more.
func (h *Hop) await(ctx context.Context, m *Remote, u *upload) error {
	select {
	case <-u.done:
	case <-ctx.Done():
	}
	h.mu.Lock()
	u.waiters--
	if u.waiters == 0 && !isClosed(u.done) {
		u.cancel()
		if j := h.jobs[m.jobDir]; j.upload == u {
			j.upload = nil
		}
	}
	h.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return u.err
}

// forget lets the next run upload anew.
func (h *Hop) forget(jobDir string, u *upload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j := h.jobs[jobDir]; j != nil && j.upload == u {
		j.upload = nil
	}
}

// store is the upload itself.
func (h *Hop) store(ctx context.Context, jobDir string, artifact sandbox.Artifact) error {
	src, err := artifact.Open(ctx)
	if err != nil {
		return fmt.Errorf("uploading the artifact: %w: %w", errArtifact, err)
	}
	defer src.Close()
	err = h.config.Leaf.Put(ctx, artifactKey(jobDir), src, artifact.Size())
	if size, ok := errors.AsType[*storage.SizeError](err); ok {
		err = &SizeError{Want: size.Want, Got: size.Got}
	}
	if err != nil {
		return fmt.Errorf("uploading the artifact: %w", err)
	}
	return nil
}

func (h *Hop) stands(ctx context.Context, m *Remote) (bool, error) {
	o, err := h.config.Leaf.Head(ctx, artifactKey(m.jobDir))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return o.Size == m.request.Artifact.Size(), err
}

// CloseJob implements sandbox.JobCloser: the job's artifact is removed, after
// the last of its runs if some are in flight still. An error is a
// *sandbox.Error.
func (h *Hop) CloseJob(ctx context.Context, worker, job string) error {
	dir := h.config.Prefix + worker + "/" + job
	h.mu.Lock()
	j := h.jobs[dir]
	if j != nil && j.runs > 0 {
		j.closed = true
		j = nil
	}
	h.mu.Unlock()
	if j == nil {
		return nil
	}
	return h.fault("", fmt.Sprintf("closing job %s: its artifact may be left, for a sweep to remove", job), h.closeJob(ctx, dir))
}

// closeJob removes the artifact of a job that has no runs. Should that fail the
// job stays known, so that it can be closed again.
func (h *Hop) closeJob(ctx context.Context, dir string) error {
	h.mu.Lock()
	j := h.jobs[dir]
	if j == nil || j.runs > 0 || h.going[dir] != nil {
		h.mu.Unlock()
		return nil
	}
	gone := make(chan struct{})
	h.going[dir] = gone
	last := j.last
	h.mu.Unlock()

	if last != nil {
		<-last // cancelled by then, since nobody waits for it
	}
	var err error
	if j.touched {
		err = h.remove(ctx, artifactKey(dir))
	}

	h.mu.Lock()
	delete(h.going, dir)
	if err == nil {
		delete(h.jobs, dir)
	}
	h.mu.Unlock()
	close(gone)
	return err
}

// sameArtifact says whether two runs may share one upload, as far as that can
// be told without reading both.
func sameArtifact(a, b sandbox.Artifact) bool {
	if a.Size() != b.Size() || a.Key() != b.Key() {
		return false
	}
	switch a := a.(type) {
	case bytesArtifact:
		b, ok := b.(bytesArtifact)
		return !ok || string(a) == string(b)
	case fileArtifact:
		b, ok := b.(fileArtifact)
		return !ok || a.path == b.path
	}
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
