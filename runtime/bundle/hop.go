package bundle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	faults "github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The defaults of a HopConfig.
const (
	DefaultPrefix = "sandbox/"
	DefaultTTL    = time.Minute
)

// cleanUpTime bounds the removal of one run's or one job's keys, which goes on
// after the caller's context has ended.
const cleanUpTime = 30 * time.Second

// resultSizes are the lengths at which a run's result may be stored. A
// signature fixes a length and sets no ceiling, so the agent pads up to the
// next one: most answers are a few KiB, and few pass 4 MiB.
var resultSizes = []int64{64 << 10, 1 << 20, 4 << 20, wire.ResultTarCap}

// Presigner resolves the logical key of an artifact that is cached, and signs
// a URL for what it finds. Its errors wrap storage.ErrNotFound when the
// artifact is not cached, and storage.ErrUnsupported when where it is cached
// can't presign.
type Presigner interface {
	PresignGet(ctx context.Context, logicalKey string, ttl time.Duration) (string, error)
}

// HopConfig configures a Hop.
type HopConfig struct {
	// Runtime is the name that errors carry.
	Runtime string
	// Leaf is the backend that holds the bundles' keys: one backend and never
	// a router, which knows nothing of what a presigned PUT wrote.
	Leaf storage.Backend
	// Cache finds artifacts that are cached; nil means that nothing is.
	Cache Presigner
	// Prefix is what all keys begin with; empty means DefaultPrefix.
	Prefix string
	// TTL is how long a URL outlives its run's deadline; 0 means DefaultTTL.
	TTL time.Duration
}

// Hop moves bundles through a storage backend. Under the prefix a run has
//
//	<worker>/<job>/<scanner>/<attempt>/manifest.json    written here, fetched by the agent
//	<worker>/<job>/<scanner>/<attempt>/out.tar          stored by the agent, read here
//	<worker>/<job>/artifact                             only if the cache has not got it
//
// A cached artifact is read where it is, and never copied. Otherwise it is
// uploaded once for all runs of its job, so a job has one artifact.
type Hop struct {
	config HopConfig
	life   context.Context // of uploads, which serve more than one run
	end    context.CancelFunc

	mu     sync.Mutex
	closed bool
	runs   map[string]*Remote       // in flight, by their directory
	jobs   map[string]*job          // by their directory
	going  map[string]chan struct{} // directories whose keys are being removed
}

// NewHop returns a hop. It asks the backend nothing yet.
func NewHop(c HopConfig) *Hop {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.TTL <= 0 {
		c.TTL = DefaultTTL
	}
	h := &Hop{config: c, runs: map[string]*Remote{}, jobs: map[string]*job{}, going: map[string]chan struct{}{}}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Create stores a run's manifest, and its artifact where that is not cached,
// within the start timeout. An error is a *sandbox.Error, and leaves nothing
// behind that CloseJob does not remove.
func (h *Hop) Create(ctx context.Context, r Request) (*Remote, error) {
	begun := time.Now()
	if _, err := r.prepare(func(int) string { return "https://artifact.invalid/" }); err != nil {
		return nil, fail(h.config.Runtime, r, sandbox.Refused, sandbox.CodeConfig, "", err)
	}
	start := Clock{Start: r.Start}.start()
	ctx, cancel := context.WithTimeoutCause(ctx, start, errStart)
	defer cancel()
	m := &Remote{hop: h, request: r, life: start + r.Manifest.Timeout() + h.config.TTL}
	l := r.Manifest.Label
	m.jobDir = h.config.Prefix + l.Worker + "/" + l.Job
	m.dir = fmt.Sprintf("%s/%s/%d", m.jobDir, l.Scanner, l.Attempt)
	if l.Scanner == artifactName {
		return nil, fail(h.config.Runtime, r, sandbox.Refused, sandbox.CodeConfig, "", errArtifactScanner)
	}
	if err := h.begin(ctx, m); err != nil {
		return nil, h.classify(ctx, r, "beginning the run", err)
	}
	if err := m.fill(ctx, begun.Add(start)); err != nil {
		return nil, faults.Left(h.classify(ctx, r, "storing the bundle", err), m.Close(ctx))
	}
	return m, nil
}

var (
	errHopClosed = errors.New("the storage hop is closed")
	errInFlight  = errors.New("a run with this label is in flight")
	// Servers that keep objects in files have no place for keys below a key.
	errArtifactScanner = errors.New("no scanner can be called artifact: that is the key of the job's artifact")
)

// begin makes m known as in flight, once nothing is being removed where its
// keys will be.
func (h *Hop) begin(ctx context.Context, m *Remote) error {
	for {
		going, err := h.tryBegin(m)
		if going == nil {
			return err
		}
		select {
		case <-going:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *Hop) tryBegin(m *Remote) (going chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, dir := range []string{m.dir, m.jobDir} {
		if h.going[dir] != nil {
			return h.going[dir], nil
		}
	}
	switch {
	case h.closed:
		return nil, errHopClosed
	case h.runs[m.dir] != nil:
		return nil, errInFlight
	}
	h.runs[m.dir] = m
	j := h.jobs[m.jobDir]
	if j == nil {
		j = &job{}
		h.jobs[m.jobDir] = j
	}
	j.runs++
	return nil, nil
}

// leave makes m known as over, and removes what its job kept if that was closed
// meanwhile.
func (h *Hop) leave(ctx context.Context, m *Remote) error {
	h.mu.Lock()
	j := h.jobs[m.jobDir]
	delete(h.runs, m.dir)
	j.runs--
	last := j.runs == 0 && j.closed
	if j.runs == 0 && !j.touched {
		delete(h.jobs, m.jobDir)
		last = false
	}
	h.mu.Unlock()
	if !last {
		return nil
	}
	return h.closeJob(ctx, m.jobDir)
}

// remove removes keys, under a context of its own.
func (h *Hop) remove(ctx context.Context, keys ...string) error {
	return h.discard(context.WithoutCancel(ctx), keys...)
}

// discard removes keys while ctx lasts, each whatever became of the others.
func (h *Hop) discard(ctx context.Context, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	var all []error
	for _, key := range keys {
		if err := h.config.Leaf.Delete(ctx, key); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// Close ends the hop: uploads are cancelled, and the keys of runs and jobs that
// were never closed removed. An error is a *sandbox.Error.
func (h *Hop) Close() error {
	h.mu.Lock()
	h.closed = true
	var runs []*Remote
	for _, m := range h.runs {
		runs = append(runs, m)
	}
	h.mu.Unlock()
	h.end()
	var all []error
	for _, m := range runs {
		all = append(all, m.close(context.Background()))
	}
	h.mu.Lock()
	var jobs []string
	for dir := range h.jobs {
		jobs = append(jobs, dir)
	}
	h.mu.Unlock()
	for _, dir := range jobs {
		all = append(all, h.closeJob(context.Background(), dir))
	}
	return h.fault("", "bundles may be left, for a sweep to remove", errors.Join(all...))
}
