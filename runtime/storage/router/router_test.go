package router_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/router"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

// signing is a memory backend that pretends to presign.
type signing struct {
	*memory.Backend
	host string
}

func (s signing) PresignGet(_ context.Context, key string, ttl time.Duration) (string, error) {
	return fmt.Sprintf("https://%s/%s?for=%s", s.host, key, ttl), nil
}

func newRouter(t *testing.T) (*router.Router, *router.Table, signing, *memory.Backend) {
	t.Helper()
	s3, disk, table := signing{memory.New(), "s3"}, memory.New(), router.NewTable()
	r, err := router.New(router.Config{
		Backends: map[string]storage.Backend{"s3": s3, "disk": disk}, Default: "s3", References: table,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, table, s3, disk
}

func put(t *testing.T, b storage.Backend, key, content string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func record(t *testing.T, table *router.Table, logical string, r router.Reference) {
	t.Helper()
	if _, err := table.Record(t.Context(), logical, r); err != nil {
		t.Fatal(err)
	}
}

func TestItIsABackend(t *testing.T) {
	storagetest.Backend(t, func(t *testing.T) storage.Backend {
		r, err := router.New(router.Config{
			Backends: map[string]storage.Backend{"a": memory.New()}, Default: "a", References: router.NewTable(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

func TestALogicalKeyIsPresignedWhereItsBytesAre(t *testing.T) {
	r, table, s3, _ := newRouter(t)
	put(t, s3, "blob/"+digest("x"), "x")
	record(t, table, "artifact:npm/a/1", router.Reference{Backend: "s3", SHA256: digest("x"), Size: 1})
	record(t, table, "artifact:npm/same/2", router.Reference{Backend: "s3", SHA256: digest("x"), Size: 1})
	record(t, table, "artifact:npm/old/1", router.Reference{Backend: "s3", Size: 1})
	record(t, table, "artifact:npm/older/1", router.Reference{Backend: "s3", Legacy: "cache/older", Size: 1})
	for logical, want := range map[string]string{
		"artifact:npm/a/1":     "https://s3/blob/" + digest("x") + "?for=1m0s",
		"artifact:npm/same/2":  "https://s3/blob/" + digest("x") + "?for=1m0s",
		"artifact:npm/old/1":   "https://s3/artifact:npm/old/1?for=1m0s",
		"artifact:npm/older/1": "https://s3/cache/older?for=1m0s",
	} {
		if got, err := r.PresignGet(t.Context(), logical, time.Minute); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", logical, got, err, want)
		}
	}
}

func TestWhatCanNotBePresignedSaysWhy(t *testing.T) {
	r, table, _, _ := newRouter(t)
	record(t, table, "artifact:npm/disk/1", router.Reference{Backend: "disk", SHA256: digest("x"), Size: 1})
	record(t, table, "artifact:npm/lost/1", router.Reference{Backend: "removed", SHA256: digest("x"), Size: 1})
	if _, err := r.PresignGet(t.Context(), "artifact:npm/disk/1", time.Minute); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("on a disk: %v", err)
	}
	if _, err := r.PresignGet(t.Context(), "artifact:npm/none/1", time.Minute); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	_, err := r.PresignGet(t.Context(), "artifact:npm/lost/1", time.Minute)
	if err == nil || errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), `no backend "removed"; there are "disk", "s3"`) {
		t.Errorf("on a backend that is gone: %v", err)
	}
	if _, err := r.PresignPut(t.Context(), "artifact:npm/a/1", time.Minute, 1); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("a write: %v", err)
	}
}

func TestTheRouterDoesNotKnowWhatWentPastIt(t *testing.T) {
	r, _, s3, _ := newRouter(t)
	leaf, err := r.Leaf("")
	if err != nil {
		t.Fatal(err)
	}
	put(t, r, "artifact:npm/a/1", "known")
	put(t, leaf, "sandbox/worker/job/scanner/1/out.tar", "unknown")
	for o, err := range r.List(t.Context(), "") {
		if err != nil || o.Key != "artifact:npm/a/1" {
			t.Errorf("it lists %+v, %v", o, err)
		}
	}
	if _, err := r.Head(t.Context(), "sandbox/worker/job/scanner/1/out.tar"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("it knows the key: %v", err)
	}
	if _, err := s3.Head(t.Context(), "sandbox/worker/job/scanner/1/out.tar"); err != nil {
		t.Errorf("the leaf does not: %v", err)
	}
}

func TestTheSameBytesAreKeptOnce(t *testing.T) {
	r, _, s3, _ := newRouter(t)
	put(t, r, "artifact:npm/a/1", "same")
	put(t, r, "artifact:npm/b/1", "same")
	put(t, r, "artifact:npm/c/1", "other")
	count := func() (n int) {
		for _, err := range s3.List(t.Context(), "blob/") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if count() != 2 {
		t.Errorf("there are %d blobs", count())
	}
	for _, key := range []string{"artifact:npm/a/1", "artifact:npm/c/1"} {
		if err := r.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if count() != 1 {
		t.Errorf("there are %d blobs", count())
	}
	body, o, err := r.Get(t.Context(), "artifact:npm/b/1")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if c, err := io.ReadAll(body); err != nil || string(c) != "same" || o.Key != "artifact:npm/b/1" || o.Size != 4 {
		t.Errorf("got %q, %+v, %v", c, o, err)
	}
}

func TestALeafIsFoundByItsName(t *testing.T) {
	r, _, s3, disk := newRouter(t)
	for name, want := range map[string]storage.Backend{"": s3, "s3": s3, "disk": disk} {
		if got, err := r.Leaf(name); err != nil || got != want {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
	if _, err := r.Leaf("tape"); err == nil || err.Error() != `storage has no backend "tape"; there are "disk", "s3"` {
		t.Errorf("got %v", err)
	}
}

func TestARouterThatCouldNotAnswerIsRefused(t *testing.T) {
	one := map[string]storage.Backend{"one": memory.New()}
	for want, c := range map[string]router.Config{
		"needs its references":                   {Backends: one, Default: "one"},
		"no backends are configured":             {Default: "one", References: router.NewTable()},
		`no default is configured; there are "o`: {Backends: one, References: router.NewTable()},
		`no backend "two"; there are "one"`:      {Backends: one, Default: "two", References: router.NewTable()},
	} {
		if _, err := router.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
