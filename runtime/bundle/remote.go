package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Remote is one run's bundle in a storage backend, reached by presigned URLs.
type Remote struct {
	hop         *Hop
	request     Request
	life        time.Duration // of the URLs
	jobDir, dir string
	in, out     string

	// read says that the result was read, after which an agent stores nothing;
	// gone that the keys are removed, and stay so.
	read, gone atomic.Bool
	once       sync.Once
	err        error
}

// String is the run's label. It is not the URLs, which are secrets.
func (m *Remote) String() string { return m.request.Manifest.Label.String() }

// GoString keeps the URLs out of %#v.
func (m *Remote) GoString() string { return m.String() }

// In is the presigned GET of the manifest. It is a secret while it lives.
func (m *Remote) In() string { return m.in }

// Out is the presigned PUT of the result at its smallest length. It is a secret
// while it lives.
func (m *Remote) Out() string { return m.out }

func (m *Remote) manifestKey() string { return m.dir + "/" + manifestName }
func (m *Remote) resultKey() string   { return m.dir + "/" + resultName }

// fill stores the manifest, with everything in it that the transport knows. The
// agent has until the start's deadline to fetch its inputs.
func (m *Remote) fill(ctx context.Context, start time.Time) error {
	if err := m.locate(ctx); err != nil {
		return err
	}
	manifest := m.request.Manifest
	manifest.Results = nil
	for _, size := range resultSizes {
		url, err := m.hop.config.Leaf.PresignPut(ctx, m.resultKey(), m.life, size)
		if err != nil {
			return fmt.Errorf("presigning the result: %w", err)
		}
		manifest.Results = append(manifest.Results, wire.ResultURL{Size: size, URL: url})
	}
	m.out = manifest.Results[0].URL
	manifest.FetchMS = max(time.Until(start).Milliseconds(), 1)
	return m.storeManifest(ctx)
}

func (m *Remote) storeManifest(ctx context.Context) error {
	document, err := m.request.Manifest.Encode()
	if err != nil {
		return err
	}
	leaf := m.hop.config.Leaf
	if m.in, err = leaf.PresignGet(ctx, m.manifestKey(), m.life); err != nil {
		return fmt.Errorf("presigning the manifest: %w", err)
	}
	if err := put(ctx, leaf, m.manifestKey(), document); err != nil {
		return fmt.Errorf("storing the manifest: %w", err)
	}
	return nil
}

// locate gives the manifest's artifact entries their URL. All have the same
// one.
func (m *Remote) locate(ctx context.Context) error {
	entries := m.request.Manifest.Entries
	url := ""
	for i := range entries {
		if entries[i].URL == "" {
			continue
		}
		if url == "" {
			var err error
			if url, err = m.artifactURL(ctx); err != nil {
				return err
			}
		}
		entries[i].URL = url
	}
	return nil
}

// artifactURL is the presigned GET of the artifact: of the cached bytes where
// they are, if whoever keeps them can presign, or of the job's own copy.
func (m *Remote) artifactURL(ctx context.Context) (string, error) {
	c := m.hop.config
	if key := m.request.Artifact.Key(); key != "" && c.Cache != nil {
		url, err := c.Cache.PresignGet(ctx, key, m.life)
		switch {
		case err == nil:
			return url, nil
		case !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrUnsupported):
			return "", fmt.Errorf("%w: presigning the cached one: %w", errArtifact, err)
		}
	}
	// Whether the leaf can presign is asked before anything is uploaded.
	url, err := c.Leaf.PresignGet(ctx, artifactKey(m.jobDir), m.life)
	if err != nil {
		return "", fmt.Errorf("presigning the artifact: %w", err)
	}
	return url, m.hop.provide(ctx, m)
}

// Result reads the result that the run left, when the run is over. The size is
// asked first and refused above wire.ResultTarCap, whatever length the backend
// let through; then the result is read, the run's keys are removed, and only
// then is it parsed as the hostile bytes it is. Its errors are as those of
// Dir.Result, or the backend's.
func (m *Remote) Result(ctx context.Context) (*wire.Result, []byte, error) {
	b, err := m.readResult(ctx)
	if err != nil {
		return nil, nil, err
	}
	m.read.Store(true)
	m.Discard(context.WithoutCancel(ctx))
	return wire.DecodeResult(b, m.request.Manifest.SealKey)
}

func (m *Remote) readResult(ctx context.Context) ([]byte, error) {
	leaf := m.hop.config.Leaf
	o, err := leaf.Head(ctx, m.resultKey())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, ErrNoResult
	case err != nil:
		return nil, err
	case o.Size > wire.ResultTarCap:
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrPlanted, o.Size, wire.ResultTarCap)
	}
	r, _, err := leaf.Get(ctx, m.resultKey())
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrNoResult
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, wire.ResultTarCap+1))
	if err != nil {
		return nil, err
	}
	if len(b) > wire.ResultTarCap {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrPlanted, wire.ResultTarCap)
	}
	return b, nil
}

// Discard removes the run's keys before Close, and may be called any number of
// times: for a run of which nothing is read any more and whose sandbox may take
// long to end. An agent that is left can store a result all the same. That, and
// what can't be removed now, Close removes, and says so if it can't either.
func (m *Remote) Discard(ctx context.Context) {
	if m.gone.Load() {
		return
	}
	// Whether the agent was over is settled before, and not after.
	read := m.read.Load()
	if m.hop.discard(ctx, m.manifestKey(), m.resultKey()) == nil && read {
		m.gone.Store(true)
	}
}

// Close removes the run's keys, if Result has not, under a context of its own:
// that ctx has ended does not keep it. No agent of the run may be left by then.
// An error is a *sandbox.Error.
func (m *Remote) Close(ctx context.Context) error {
	return m.hop.fault(m.String(), "the bundle may be left, for a sweep to remove", m.close(ctx))
}

func (m *Remote) close(ctx context.Context) error {
	m.once.Do(func() {
		if !m.gone.Load() {
			m.err = m.hop.remove(ctx, m.manifestKey(), m.resultKey())
			// They may be another run's from here on.
			m.gone.Store(true)
		}
		m.err = errors.Join(m.err, m.hop.leave(ctx, m))
	})
	return m.err
}
