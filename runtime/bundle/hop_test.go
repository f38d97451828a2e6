package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/router"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// bucket is a memory backend that pretends to presign, and writes down what is
// asked of it.
type bucket struct {
	*memory.Backend
	host string

	mu    sync.Mutex
	calls []string
	// put is asked before an object is stored.
	put func(ctx context.Context, key string) error
	// ages makes objects older than they are.
	ages map[string]time.Duration
}

func newBucket(host string) *bucket {
	return &bucket{Backend: memory.New(), host: host, ages: map[string]time.Duration{}}
}

func (b *bucket) note(op, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, op+" "+key)
}

// called lists the calls that begin with one of ops.
func (b *bucket) called(ops ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, c := range b.calls {
		op, _, _ := strings.Cut(c, " ")
		if slices.Contains(ops, op) {
			list = append(list, c)
		}
	}
	return list
}

func (b *bucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	b.note("put", key)
	if b.put != nil {
		if err := b.put(ctx, key); err != nil {
			return err
		}
	}
	return b.Backend.Put(ctx, key, r, size)
}

func (b *bucket) Get(ctx context.Context, key string) (io.ReadCloser, storage.Object, error) {
	b.note("get", key)
	return b.Backend.Get(ctx, key)
}

func (b *bucket) Head(ctx context.Context, key string) (storage.Object, error) {
	b.note("head", key)
	return b.Backend.Head(ctx, key)
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	b.note("delete", key)
	return b.Backend.Delete(ctx, key)
}

func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[storage.Object, error] {
	b.note("list", prefix)
	return func(yield func(storage.Object, error) bool) {
		for o, err := range b.Backend.List(ctx, prefix) {
			o.Modified = o.Modified.Add(-b.ages[o.Key])
			if !yield(o, err) {
				return
			}
		}
	}
}

func (b *bucket) sign(method, key string, ttl time.Duration, size int64) string {
	return fmt.Sprintf("https://%s/%s?method=%s&ttl=%s&size=%d", b.host, key, method, ttl, size)
}

func (b *bucket) PresignGet(_ context.Context, key string, ttl time.Duration) (string, error) {
	return b.sign("GET", key, ttl, -1), nil
}

func (b *bucket) PresignPut(_ context.Context, key string, ttl time.Duration, size int64) (string, error) {
	return b.sign("PUT", key, ttl, size), nil
}

func (b *bucket) keys(t *testing.T) []string {
	t.Helper()
	list := []string{}
	for o, err := range b.Backend.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, o.Key)
	}
	return list
}

// cached is an artifact that a cache may hold.
type cached struct {
	sandbox.Artifact
	key string
}

func (c cached) Key() string { return c.key }

func newHop(t *testing.T, leaf storage.Backend, cache bundle.Presigner) *bundle.Hop {
	t.Helper()
	h := bundle.NewHop(bundle.HopConfig{Runtime: "test", Leaf: leaf, Cache: cache})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// remoteRequest is a run of a scanner over an artifact.
func remoteRequest(t *testing.T, a sandbox.Artifact, scanner string) bundle.Request {
	t.Helper()
	spec := specOf()
	if a != nil {
		spec = withArtifact(t, a)
	}
	spec.Label.Scanner = scanner
	return bundle.Request{Manifest: bundle.Manifest(spec, nil), Artifact: a, Start: 2 * time.Minute}
}

func carry(t *testing.T, h *bundle.Hop, r bundle.Request) *bundle.Remote {
	t.Helper()
	m, err := h.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// manifestOf reads what the agent would fetch.
func manifestOf(t *testing.T, b *bucket, m *bundle.Remote) *wire.Manifest {
	t.Helper()
	u, err := url.Parse(m.In())
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := b.Backend.Get(t.Context(), strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := wire.ParseManifest(document)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

const dir = "sandbox/worker-1/job-2/"

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestARunIsGivenTwoURLsAndTheManifestTheRest(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	r := remoteRequest(t, bundle.BytesArtifact([]byte("four")), "one")
	r.Manifest.Entries = append(r.Manifest.Entries, wire.Entry{Path: path(t, "again"), Kind: wire.File, URL: wire.ArtifactURL})
	m := carry(t, h, r)
	const life = 2*time.Minute + time.Minute + time.Minute // start, timeout, TTL
	if want := b.sign("GET", dir+"one/3/manifest.json", life, -1); m.In() != want {
		t.Errorf("in is %s, want %s", m.In(), want)
	}
	if want := b.sign("PUT", dir+"one/3/out.tar", life, 64<<10); m.Out() != want {
		t.Errorf("out is %s, want %s", m.Out(), want)
	}
	manifest := manifestOf(t, b, m)
	for _, e := range manifest.Entries {
		if e.URL != b.sign("GET", dir+"artifact", life, -1) || e.Size != 4 {
			t.Errorf("the artifact is %+v", e)
		}
	}
	var sizes []int64
	for _, place := range manifest.Results {
		sizes = append(sizes, place.Size)
		if place.URL != b.sign("PUT", dir+"one/3/out.tar", life, place.Size) {
			t.Errorf("a result goes to %s", place.URL)
		}
	}
	if !slices.Equal(sizes, []int64{64 << 10, 1 << 20, 4 << 20, wire.ResultTarCap}) {
		t.Errorf("the lengths are %d", sizes)
	}
	if fetch := manifest.FetchTimeout(); fetch > 2*time.Minute || fetch < 110*time.Second {
		t.Errorf("the agent has %v to fetch", fetch)
	}
	if manifest.SealKey != r.Manifest.SealKey {
		t.Error("the seal key is not the run's")
	}
	if r.Manifest.Results != nil || r.Manifest.Entries[0].URL != wire.ArtifactURL {
		t.Error("the caller's manifest was changed")
	}
	for _, s := range []string{fmt.Sprint(m), fmt.Sprintf("%+v %#v", m, m)} {
		if strings.Contains(s, "https:") {
			t.Errorf("it prints as %s", s)
		}
	}
}

func TestACachedArtifactIsReadWhereItIsAndNothingIsUploaded(t *testing.T) {
	leaf, blobs := newBucket("bundles"), newBucket("blobs")
	r, err := router.New(router.Config{
		Backends: map[string]storage.Backend{"blobs": blobs}, Default: "blobs", References: router.NewTable(),
	})
	if err != nil {
		t.Fatal(err)
	}
	content := "the cached bytes"
	const key = "artifact:npm/left-pad/1.3.0"
	if err := r.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	blobs.calls = nil
	m := carry(t, newHop(t, leaf, r), remoteRequest(t, cached{bundle.BytesArtifact([]byte(content)), key}, "one"))
	manifest := manifestOf(t, leaf, m)
	if u := manifest.Entries[0].URL; !strings.HasPrefix(u, "https://blobs/blob/") {
		t.Errorf("the artifact is at %s", u)
	}
	if !strings.HasPrefix(m.In(), "https://bundles/") || !strings.HasPrefix(m.Out(), "https://bundles/") {
		t.Errorf("the bundle is at %s and %s", m.In(), m.Out())
	}
	equal(t, "what was written", leaf.called("put"), "put "+dir+"one/3/manifest.json")
	equal(t, "what the blobs' backend saw", blobs.calls)
}

func TestACachedArtifactThatCanNotBePresignedTakesTheUncachedWay(t *testing.T) {
	leaf, disk := newBucket("bundles"), memory.New()
	r, err := router.New(router.Config{
		Backends: map[string]storage.Backend{"disk": disk}, Default: "disk", References: router.NewTable(),
	})
	if err != nil {
		t.Fatal(err)
	}
	const key = "artifact:npm/left-pad/1.3.0"
	if err := r.Put(t.Context(), key, strings.NewReader("cached"), 6); err != nil {
		t.Fatal(err)
	}
	h := newHop(t, leaf, r)
	for name, artifact := range map[string]string{"unsigned": key, "unknown": "artifact:npm/other/1"} {
		req := remoteRequest(t, cached{bundle.BytesArtifact([]byte("cached")), artifact}, "one")
		req.Manifest.Label.Job = name
		manifest := manifestOf(t, leaf, carry(t, h, req))
		if u := manifest.Entries[0].URL; !strings.HasPrefix(u, "https://bundles/sandbox/worker-1/"+name+"/artifact?") {
			t.Errorf("%s: the artifact is at %s", name, u)
		}
	}
	for o, err := range r.List(t.Context(), "") {
		if err != nil || o.Key != key {
			t.Errorf("the cache has %+v, %v", o, err)
		}
	}
}

// jealous is a cache that must not be asked about a bundle's keys.
type jealous struct{ t *testing.T }

func (j jealous) PresignGet(_ context.Context, key string, _ time.Duration) (string, error) {
	if !strings.HasPrefix(key, "artifact:") {
		j.t.Errorf("the router is asked for %s", key)
	}
	return "", fmt.Errorf("looking: %w", storage.ErrNotFound)
}

func TestTheRouterIsAskedForTheBlobAndNeverSeesABundlesKey(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, jealous{t})
	req := remoteRequest(t, cached{bundle.BytesArtifact([]byte("x")), "artifact:npm/a/1"}, "one")
	m := carry(t, h, req)
	answer(t, b, req, "findings")
	if _, _, err := m.Result(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(m.Close(t.Context()), h.CloseJob(t.Context(), "worker-1", "job-2")); err != nil {
		t.Error(err)
	}
	if _, err := h.Sweep(t.Context(), sandbox.SweepPolicy{Worker: "worker-1", OlderThan: time.Second}); err != nil {
		t.Error(err)
	}
}

func TestACacheThatFailsFailsTheRun(t *testing.T) {
	down := failingCache{&storage.Error{Op: "presign get", Backend: "router", Err: storage.ErrUnavailable}}
	b := newBucket("s3")
	h := newHop(t, b, down)
	_, err := h.Create(t.Context(), remoteRequest(t, cached{bundle.BytesArtifact([]byte("x")), "artifact:npm/a/1"}, "one"))
	if sandbox.KindOf(err) != sandbox.Crashed || sandbox.CodeOf(err) != sandbox.CodeFetch {
		t.Errorf("got %v", err)
	}
	equal(t, "what was uploaded", b.called("put"))
}

type failingCache struct{ err error }

func (f failingCache) PresignGet(context.Context, string, time.Duration) (string, error) {
	return "", f.err
}

// answer stores what the agent of a run would.
func answer(t *testing.T, b *bucket, r bundle.Request, stdout string) {
	t.Helper()
	result, _, err := wire.EncodeResult(resultOf(wire.EndExited), []byte(stdout), r.Manifest.SealKey, []int64{64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	store(t, b, fmt.Sprintf("sandbox/%s/%s/%s/%d/out.tar", r.Manifest.Label.Worker, r.Manifest.Label.Job, r.Manifest.Label.Scanner, r.Manifest.Label.Attempt), result)
}

func store(t *testing.T, b *bucket, key string, content []byte) {
	t.Helper()
	if err := b.Backend.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func TestTheKeysAreRemovedAfterTheResultIsReadAndBeforeItIsParsed(t *testing.T) {
	for name, c := range map[string]struct {
		content func(r bundle.Request) []byte
		err     error
	}{
		"an answer":  {nil, nil},
		"garbage":    {func(bundle.Request) []byte { return []byte("not a tar") }, wire.ErrResult},
		"a forgery":  {func(bundle.Request) []byte { return encode(t, resultOf(wire.EndExited), "x", wire.NewSealKey()) }, wire.ErrSeal},
		"an empty":   {func(bundle.Request) []byte { return nil }, wire.ErrResult},
		"at the cap": {func(bundle.Request) []byte { return make([]byte, wire.ResultTarCap) }, wire.ErrResult},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket("s3")
			h := newHop(t, b, nil)
			r := remoteRequest(t, nil, "one")
			m := carry(t, h, r)
			if c.content == nil {
				answer(t, b, r, "findings")
			} else {
				store(t, b, dir+"one/3/out.tar", c.content(r))
			}
			b.calls = nil
			result, stdout, err := m.Result(t.Context())
			if !errors.Is(err, c.err) || c.err == nil && (*result.Status != 3 || string(stdout) != "findings") {
				t.Errorf("got %+v, %q, %v", result, stdout, err)
			}
			equal(t, "the order", b.calls,
				"head "+dir+"one/3/out.tar", "get "+dir+"one/3/out.tar", "delete "+dir+"one/3/manifest.json", "delete "+dir+"one/3/out.tar")
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			equal(t, "what is left", b.keys(t))
			equal(t, "what Close had to remove", b.called("delete")[2:])
		})
	}
}

func TestAResultAboveTheCeilingIsRefusedUnread(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	store(t, b, dir+"one/3/out.tar", make([]byte, wire.ResultTarCap+1))
	if _, _, err := m.Result(t.Context()); !errors.Is(err, bundle.ErrPlanted) {
		t.Errorf("got %v", err)
	}
	equal(t, "what was read", b.called("get"))
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, "what is left", b.keys(t))
}

// growing is a backend whose result is longer than it says.
type growing struct{ *bucket }

func (g growing) Head(ctx context.Context, key string) (storage.Object, error) {
	o, err := g.bucket.Head(ctx, key)
	o.Size = 1
	return o, err
}

func TestAResultThatGrewAfterItsSizeWasAskedIsReadToTheCeiling(t *testing.T) {
	b := growing{newBucket("s3")}
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	store(t, b.bucket, dir+"one/3/out.tar", make([]byte, wire.ResultTarCap+1))
	if _, _, err := m.Result(t.Context()); !errors.Is(err, bundle.ErrPlanted) {
		t.Errorf("got %v", err)
	}
}

func TestARunWithoutAResultSaysSo(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	if _, _, err := m.Result(t.Context()); !errors.Is(err, bundle.ErrNoResult) {
		t.Errorf("got %v", err)
	}
}

func TestWhatACancelledRunStoredIsRemovedAllTheSame(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
	equal(t, "what is left", b.keys(t))
}

func TestALeafThatCanNotPresignIsRefusedWithTheWayOut(t *testing.T) {
	leaf := memory.New()
	for _, artifact := range []sandbox.Artifact{nil, bundle.BytesArtifact([]byte("x"))} {
		_, err := newHop(t, leaf, nil).Create(t.Context(), remoteRequest(t, artifact, "one"))
		const want = "sandbox test: run job-2-one-3: refused (config): the test runtime moves bundles through the storage backend and " +
			"'in_memory' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		for o := range leaf.List(t.Context(), "") {
			t.Errorf("%s is left", o.Key)
		}
	}
}

func TestLabelsThatWouldMeetAreRefused(t *testing.T) {
	b := newBucket("s3")
	h := newHop(t, b, nil)
	first := carry(t, h, remoteRequest(t, nil, "one"))
	if _, err := h.Create(t.Context(), remoteRequest(t, nil, "one")); sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "in flight") {
		t.Errorf("a second run with the label: %v", err)
	}
	if _, err := h.Create(t.Context(), remoteRequest(t, nil, "artifact")); sandbox.KindOf(err) != sandbox.Refused {
		t.Errorf("a scanner called artifact: %v", err)
	}
	equal(t, "what is there", b.keys(t), dir+"one/3/manifest.json")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	carry(t, h, remoteRequest(t, nil, "one"))
}

func TestARemotesStartIsTheAgentsToKeep(t *testing.T) {
	b := newBucket("s3")
	m := carry(t, newHop(t, b, nil), remoteRequest(t, nil, "one"))
	clock := bundle.Clock{Start: time.Nanosecond, Timeout: 20 * time.Millisecond}
	ctx, cancel := clock.Context(t.Context())
	defer cancel()
	watched, stop := clock.Watch(ctx, m)
	defer stop()
	<-watched.Done()
	if e := bundle.EndError(watched, m); e.Kind != sandbox.RunTimeout {
		t.Errorf("got %v", e)
	}
}
