// Package storagetest is the one contract test of storage backends.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// Quirk is what a server can't do although its protocol asks for it. Nothing
// may need it then.
type Quirk string

// NoNesting is a server that keeps objects in files, and has no place for an
// object "a/b" beside an object "a".
const NoNesting Quirk = "this server keeps no object below another"

// Backend tests what every backend owes. open returns an empty one, which the
// test has to itself.
func Backend(t *testing.T, open func(t *testing.T) storage.Backend, quirks ...Quirk) {
	t.Run("AKeyMayBeginLikeAnother", func(t *testing.T) {
		if slices.Contains(quirks, NoNesting) {
			t.Skip("not run: " + string(NoNesting))
		}
		nested(t, open(t))
	})
	for _, c := range []struct {
		name string
		test func(t *testing.T, b storage.Backend)
	}{
		{"WhatWasPutIsGot", putAndGet},
		{"AnObjectIsReplacedWhole", overwrite},
		{"WhatIsNotThereIsNotFound", missing},
		{"ADeletedObjectIsGone", remove},
		{"KeysOfEveryKindAreKept", strange},
		{"KeysThatNobodyCouldKeepAreRefused", refused},
		{"AReaderOfAnotherLengthStoresNothing", wrongSize},
		{"AReaderThatFailsStoresNothing", brokenReader},
		{"AListingIsInKeyOrderAndUnderItsPrefix", list},
		{"AListingMayBeLeftEarly", leftEarly},
		{"ALongListingIsComplete", longList},
		{"AnEndedContextEndsACall", cancelled},
		{"ManyMayUseItAtOnce", concurrent},
		{"WhoeverCanPresignDoesBothAndOthersSaySo", presign},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func put(t *testing.T, b storage.Backend, key, content string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

// got is an object's content.
func got(t *testing.T, b storage.Backend, key string) string {
	t.Helper()
	r, o, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if o.Key != key || o.Size != int64(len(content)) {
		t.Errorf("%q has %d bytes and is described as %+v", key, len(content), o)
	}
	return string(content)
}

func keys(t *testing.T, b storage.Backend, prefix string) []string {
	t.Helper()
	list := []string{}
	for o, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, o.Key)
	}
	return list
}

// isError checks that a failed call says what failed, in one line.
func isError(t *testing.T, err, kind error) {
	t.Helper()
	e, ok := errors.AsType[*storage.Error](err)
	if !ok || kind != nil && !errors.Is(err, kind) || strings.Contains(fmt.Sprint(err), "\n") {
		t.Errorf("got %v, want a *storage.Error of %v", err, kind)
		return
	}
	if e.Op == "" || e.Backend == "" {
		t.Errorf("the error %+v does not say what failed", e)
	}
}

func isMissing(t *testing.T, b storage.Backend, key string) {
	t.Helper()
	_, err := b.Head(t.Context(), key)
	isError(t, err, storage.ErrNotFound)
	r, _, err := b.Get(t.Context(), key)
	if err == nil {
		r.Close()
	}
	isError(t, err, storage.ErrNotFound)
}

func putAndGet(t *testing.T, b storage.Backend) {
	if b.Kind() == "" {
		t.Error("the kind is empty")
	}
	for _, size := range []int{0, 1, 4096, 20 << 20} {
		key, content := fmt.Sprintf("size/%d", size), strings.Repeat("x", size)
		before := time.Now()
		put(t, b, key, content)
		if got(t, b, key) != content {
			t.Errorf("%d bytes come back as others", size)
		}
		o, err := b.Head(t.Context(), key)
		if err != nil || o.Key != key || o.Size != int64(size) {
			t.Errorf("head says %+v, %v", o, err)
		}
		if age := o.Modified.Sub(before); age < -time.Minute || age > time.Minute {
			t.Errorf("it was stored at %v, which head says is %v", before, o.Modified)
		}
	}
	// A reader that can't be wound back is as good.
	if err := b.Put(t.Context(), "stream", io.MultiReader(strings.NewReader("two "), strings.NewReader("parts")), 9); err != nil {
		t.Fatal(err)
	}
	// So is one that stands in the middle of something.
	r := strings.NewReader("skipped, kept")
	if _, err := r.Seek(9, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "rest", r, 4); err != nil {
		t.Fatal(err)
	}
	if a, z := got(t, b, "stream"), got(t, b, "rest"); a != "two parts" || z != "kept" {
		t.Errorf("got %q and %q", a, z)
	}
}

func overwrite(t *testing.T, b storage.Backend) {
	put(t, b, "key", "a long first content")
	put(t, b, "key", "second")
	if c := got(t, b, "key"); c != "second" {
		t.Errorf("got %q", c)
	}
	put(t, b, "key", "")
	if c := got(t, b, "key"); c != "" {
		t.Errorf("got %q", c)
	}
}

func missing(t *testing.T, b storage.Backend) {
	put(t, b, "there/below", "x")
	for _, key := range []string{"nothing", "there", "there/below/deeper", "there/other"} {
		isMissing(t, b, key)
	}
	if list := keys(t, b, "nothing"); len(list) != 0 {
		t.Errorf("the listing has %q", list)
	}
}

func remove(t *testing.T, b storage.Backend) {
	put(t, b, "dir/a", "x")
	put(t, b, "dir/b", "y")
	for range 2 {
		if err := b.Delete(t.Context(), "dir/a"); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
	isMissing(t, b, "dir/a")
	if c := got(t, b, "dir/b"); c != "y" {
		t.Errorf("its neighbour is %q", c)
	}
	if err := b.Delete(t.Context(), "never/there"); err != nil {
		t.Errorf("deleting what was never there: %v", err)
	}
}

func nested(t *testing.T, b storage.Backend) {
	all := []string{"a", "a-", "a/b", "a/b/c", "a0"}
	for _, key := range all {
		put(t, b, key, "content of "+key)
	}
	if list := keys(t, b, ""); fmt.Sprint(list) != fmt.Sprint([]string{"a", "a-", "a/b", "a/b/c", "a0"}) {
		t.Errorf("the listing has %q", list)
	}
	for _, key := range all {
		if c := got(t, b, key); c != "content of "+key {
			t.Errorf("%q holds %q", key, c)
		}
	}
	for _, key := range []string{"a/b", "a", "a/b/c"} {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		isMissing(t, b, key)
	}
	if list := keys(t, b, ""); fmt.Sprint(list) != "[a- a0]" {
		t.Errorf("the listing has %q", list)
	}
}

// strangeKeys are keys that something on the way may want to change.
var strangeKeys = []string{
	"artifact:npm/left-pad/1.3.0", "artifact:npm/@scope/name/1.0.0+build", "with space/and%20percent",
	"ünï/cödé", "a&b=c?d#e", "quo'te\"s", "semi;colon,comma", "tilde~/under_/dash-", ".dot/..dots", "a+b", "end=", "x" + strings.Repeat("y", 250),
	strings.Repeat("long/", 200) + "key",
}

func strange(t *testing.T, b storage.Backend) {
	for _, key := range strangeKeys {
		put(t, b, key, key)
		if c := got(t, b, key); c != key {
			t.Errorf("%q holds %q", key, c)
		}
		if list := keys(t, b, key); len(list) != 1 || list[0] != key {
			t.Errorf("listing %q has %q", key, list)
		}
	}
	if list := keys(t, b, ""); len(list) != len(strangeKeys) {
		t.Errorf("the listing has %q", list)
	}
	for _, key := range strangeKeys {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if list := keys(t, b, ""); len(list) != 0 {
		t.Errorf("the listing has %q", list)
	}
}

func refused(t *testing.T, b storage.Backend) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "a\x00b", "a\nb", "\xff", strings.Repeat("k", 1025),
	} {
		isError(t, b.Put(t.Context(), key, strings.NewReader("x"), 1), nil)
		r, _, err := b.Get(t.Context(), key)
		if err == nil {
			r.Close()
		}
		isError(t, err, nil)
		_, err = b.Head(t.Context(), key)
		isError(t, err, nil)
		isError(t, b.Delete(t.Context(), key), nil)
		if _, err := b.PresignGet(t.Context(), key, time.Minute); err == nil {
			t.Errorf("%q was presigned", key)
		}
	}
	if list := keys(t, b, ""); len(list) != 0 {
		t.Errorf("the listing has %q", list)
	}
}

func wrongSize(t *testing.T, b storage.Backend) {
	put(t, b, "kept", "as it was")
	for _, size := range []int64{0, 1, 99, 101, 1 << 20} {
		content := strings.Repeat("x", 100)
		for _, r := range []io.Reader{strings.NewReader(content), io.MultiReader(strings.NewReader(content))} {
			for _, key := range []string{"new", "kept"} {
				err := b.Put(t.Context(), key, r, size)
				isError(t, err, storage.ErrSize)
				if _, ok := errors.AsType[*storage.SizeError](err); !ok {
					t.Errorf("%v does not say both sizes", err)
				}
				if s, ok := r.(io.Seeker); ok {
					_, _ = s.Seek(0, io.SeekStart)
				} else {
					r = io.MultiReader(strings.NewReader(content))
				}
			}
		}
	}
	isMissing(t, b, "new")
	if c := got(t, b, "kept"); c != "as it was" {
		t.Errorf("the object is %q now", c)
	}
}

var errBroken = errors.New("the source broke off")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func brokenReader(t *testing.T, b storage.Backend) {
	err := b.Put(t.Context(), "new", io.MultiReader(strings.NewReader("some"), broken{}), 1000)
	isError(t, err, errBroken)
	isMissing(t, b, "new")
}

func list(t *testing.T, b storage.Backend) {
	for _, key := range []string{"p/b", "q", "p/a/x", "p/a-", "p/c", "p-x", "p/a.", "p/a0", "o"} {
		put(t, b, key, key)
	}
	for prefix, want := range map[string]string{
		"":     "[o p-x p/a- p/a. p/a/x p/a0 p/b p/c q]",
		"p":    "[p-x p/a- p/a. p/a/x p/a0 p/b p/c]",
		"p/":   "[p/a- p/a. p/a/x p/a0 p/b p/c]",
		"p/a":  "[p/a- p/a. p/a/x p/a0]",
		"p/a/": "[p/a/x]",
		"r":    "[]", "p/a/x/": "[]",
	} {
		if list := keys(t, b, prefix); fmt.Sprint(list) != want {
			t.Errorf("under %q: %v, want %s", prefix, list, want)
		}
	}
	for o, err := range b.List(t.Context(), "p/a/") {
		if err != nil || o.Size != 5 || time.Since(o.Modified).Abs() > time.Minute {
			t.Errorf("the object is %+v, %v", o, err)
		}
	}
}

func leftEarly(t *testing.T, b storage.Backend) {
	for _, key := range []string{"a", "b", "c"} {
		put(t, b, key, key)
	}
	var seen []string
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, o.Key)
		if len(seen) == 2 {
			break
		}
	}
	if fmt.Sprint(seen) != "[a b]" {
		t.Errorf("got %q", seen)
	}
}

func longList(t *testing.T, b storage.Backend) {
	const n = 1100 // more than a page of S3
	var wg sync.WaitGroup
	work := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range work {
				if err := b.Put(t.Context(), fmt.Sprintf("many/%04d", i), strings.NewReader("x"), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	list := keys(t, b, "many/")
	if len(list) != n {
		t.Fatalf("the listing has %d objects, want %d", len(list), n)
	}
	for i, key := range list {
		if key != fmt.Sprintf("many/%04d", i) {
			t.Fatalf("object %d of the listing is %s", i, key)
		}
	}
}

func cancelled(t *testing.T, b storage.Backend) {
	put(t, b, "key", "content")
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	is := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v, want the context's cause", what, err)
		}
	}
	is("put", b.Put(ctx, "other", strings.NewReader("x"), 1))
	_, _, err := b.Get(ctx, "key")
	is("get", err)
	_, err = b.Head(ctx, "key")
	is("head", err)
	is("delete", b.Delete(ctx, "key"))
	for _, err := range b.List(ctx, "") {
		is("list", err)
	}
	if c := got(t, b, "key"); c != "content" {
		t.Errorf("the object is %q", c)
	}
	isMissing(t, b, "other")
	during(t, b)
}

// during cancels an upload in its middle.
func during(t *testing.T, b storage.Backend) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("in the middle")
	half := bytes.Repeat([]byte("x"), 1<<20)
	r := io.MultiReader(bytes.NewReader(half), readerFunc(func(p []byte) (int, error) {
		cancel(cause)
		return copy(p, half), nil
	}))
	if err := b.Put(ctx, "halfway", r, 1<<30); !errors.Is(err, cause) {
		t.Errorf("got %v, want the context's cause", err)
	}
	isMissing(t, b, "halfway")
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func concurrent(t *testing.T, b storage.Backend) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			own := fmt.Sprintf("own/%d/object", n)
			content := strings.Repeat(fmt.Sprint(n), 10_000)
			for range 10 {
				for _, key := range []string{own, "shared/object"} {
					if err := b.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
						t.Error(err)
						return
					}
				}
				whole(t, b, "shared/object", 10_000)
				whole(t, b, own, 10_000)
				if err := b.Delete(t.Context(), own); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list := keys(t, b, ""); fmt.Sprint(list) != "[shared/object]" {
		t.Errorf("the listing has %q", list)
	}
}

// whole checks that an object is one writer's, from its first to its last byte.
func whole(t *testing.T, b storage.Backend, key string, size int) {
	r, _, err := b.Get(t.Context(), key)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	c, err := io.ReadAll(r)
	if err != nil || len(c) != size || strings.Trim(string(c), string(c[:1])) != "" {
		t.Errorf("%s is a mixture of %d bytes, %v", key, len(c), err)
	}
}

func presign(t *testing.T, b storage.Backend) {
	put(t, b, "key", "x")
	get, errGet := b.PresignGet(t.Context(), "key", time.Minute)
	set, errPut := b.PresignPut(t.Context(), "key", time.Minute, 5)
	if errors.Is(errGet, storage.ErrUnsupported) && errors.Is(errPut, storage.ErrUnsupported) {
		return
	}
	if errGet != nil || errPut != nil || !strings.HasPrefix(get, "http") || !strings.HasPrefix(set, "http") || get == set {
		t.Errorf("presigning says %v and %v", errGet, errPut)
	}
}
