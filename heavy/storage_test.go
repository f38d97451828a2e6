package heavy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

// everyServer runs a test against each real server.
func everyServer(t *testing.T, test func(t *testing.T, s *s3server.Server)) {
	for _, kind := range s3server.Kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, s3server.Start(t, kind, s3server.Options{})) })
	}
}

// emptyBucket removes everything from a bucket.
func emptyBucket(t *testing.T, b storage.Backend) {
	t.Helper()
	for o, err := range b.List(t.Context(), "") {
		if err == nil {
			err = b.Delete(t.Context(), o.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestABucketIsABackend(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		storagetest.Backend(t, func(t *testing.T) storage.Backend {
			b := s.Backend(t)
			emptyBucket(t, b)
			return b
		}, storagetest.NoNesting)
	})
}

// client is as plain as a stranger's: it knows nothing but a URL.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{Proxy: nil}}

// ask makes one request and returns its status. A length of -1 sends the body
// in chunks.
func ask(t *testing.T, method, u, body string, length int64) int {
	t.Helper()
	var r io.Reader
	if method == http.MethodPut || method == http.MethodPost {
		r = io.MultiReader(strings.NewReader(body)) // of no length that http could see
	}
	req, err := http.NewRequestWithContext(t.Context(), method, u, r)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = length
	response, err := client.Do(req)
	if err != nil {
		t.Logf("%s: %v", method, err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func signed(t *testing.T, b storage.Backend, key string, ttl time.Duration, size int64) (get, put string) {
	t.Helper()
	get, err := b.PresignGet(t.Context(), key, ttl)
	if err == nil {
		put, err = b.PresignPut(t.Context(), key, ttl, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	return get, put
}

func store(t *testing.T, b storage.Backend, key, content string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, b storage.Backend, key string) string {
	t.Helper()
	r, _, err := b.Get(t.Context(), key)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	c, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(c)
}

// malformed are requests that a server may refuse for their form, before it
// looks at their signature.
var malformed = map[string][]int{
	"a read URL that posts": {http.StatusBadRequest, http.StatusMethodNotAllowed},
	"an empty body":         {http.StatusLengthRequired},
}

func TestAPresignedURLDoesWhatItWasSignedForAndNothingElse(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		b := s.Backend(t)
		store(t, b, "dir/read", "to be read")
		store(t, b, "dir/other", "not to be read")
		get, _ := signed(t, b, "dir/read", time.Minute, 5)
		_, put := signed(t, b, "dir/written", time.Minute, 5)
		replace := func(u, path string) string {
			parsed, err := url.Parse(u)
			if err != nil {
				t.Fatal(err)
			}
			parsed.Path = path
			return parsed.String()
		}
		bucket := "/" + s3server.Bucket
		for _, c := range []struct {
			what, method, url, body string
			length                  int64
		}{
			{"a read URL that writes", http.MethodPut, get, "12345", 5},
			{"a read URL that deletes", http.MethodDelete, get, "", 0},
			{"a read URL that posts", http.MethodPost, get, "12345", 5},
			{"a read URL of another key", http.MethodGet, replace(get, bucket+"/dir/other"), "", 0},
			{"a read URL that lists", http.MethodGet, replace(get, bucket), "", 0},
			{"a read URL that lists with a query", http.MethodGet, replace(get, bucket+"/") + "&list-type=2", "", 0},
			{"a read URL that lists buckets", http.MethodGet, replace(get, "/"), "", 0},
			{"a write URL that reads", http.MethodGet, put, "", 0},
			{"a write URL that deletes", http.MethodDelete, put, "", 0},
			{"a write URL of another key", http.MethodPut, replace(put, bucket+"/dir/other"), "12345", 5},
			{"a shorter body", http.MethodPut, put, "1234", 4},
			{"a longer body", http.MethodPut, put, "123456", 6},
			{"an empty body", http.MethodPut, put, "", 0},
			{"a tampered length", http.MethodPut, strings.Replace(put, "content-length%3B", "", 1), "123456", 6},
			{"a longer life", http.MethodGet, strings.Replace(get, "X-Amz-Expires=60", "X-Amz-Expires=6000", 1), "", 0},
			{"no signature, a read", http.MethodGet, s.Endpoint() + bucket + "/dir/read", "", 0},
			{"no signature, a write", http.MethodPut, s.Endpoint() + bucket + "/dir/written", "12345", 5},
			{"no signature, a delete", http.MethodDelete, s.Endpoint() + bucket + "/dir/read", "", 0},
			{"no signature, a list", http.MethodGet, s.Endpoint() + bucket + "?list-type=2", "", 0},
		} {
			status := ask(t, c.method, c.url, c.body, c.length)
			if status != http.StatusForbidden && !slices.Contains(malformed[c.what], status) {
				t.Errorf("%s: status %d, want 403", c.what, status)
			}
		}
		// A body in chunks has no length to be checked against the signature. A
		// server that hangs up on it may do so before its answer is read.
		if status := ask(t, http.MethodPut, put, "12345", -1); !slices.Contains([]int{0, http.StatusForbidden, http.StatusLengthRequired}, status) {
			t.Errorf("a body in chunks: status %d, want 403 or 411", status)
		}
		if c := content(t, b, "dir/read") + content(t, b, "dir/other"); c != "to be readnot to be read" {
			t.Errorf("the objects hold %q now", c)
		}
		if _, err := b.Head(t.Context(), "dir/written"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("something was stored: %v", err)
		}
		if status := ask(t, http.MethodGet, get, "", 0); status != http.StatusOK {
			t.Errorf("reading: status %d", status)
		}
		if status := ask(t, http.MethodPut, put, "12345", 5); status != http.StatusOK || content(t, b, "dir/written") != "12345" {
			t.Errorf("writing: status %d", status)
		}
	})
}

func TestAnExpiredURLIsRefused(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		b := s.Backend(t)
		store(t, b, "key", "content")
		const life = 2 * time.Second
		before := time.Now()
		get, put := signed(t, b, "key", life, 5)
		status := ask(t, http.MethodGet, get, "", 0)
		if status != http.StatusOK && time.Since(before) < life {
			t.Errorf("while it lives: status %d", status)
		}
		// Its second is over at the latest one after its life.
		<-time.After(time.Until(before.Add(life + 2*time.Second)))
		for method, u := range map[string]string{http.MethodGet: get, http.MethodPut: put} {
			length := int64(0)
			if method == http.MethodPut {
				length = 5
			}
			if status := ask(t, method, u, "12345", length); status != http.StatusForbidden {
				t.Errorf("%s afterwards: status %d, want 403", method, status)
			}
		}
		if c := content(t, b, "key"); c != "content" {
			t.Errorf("the object is %q now", c)
		}
	})
}

// calls are all calls of a backend, by name.
func calls(b storage.Backend) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"put": func(ctx context.Context) error { return b.Put(ctx, "key", strings.NewReader("12345"), 5) },
		"get": func(ctx context.Context) error {
			r, _, err := b.Get(ctx, "key")
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				r.Close()
			}
			return err
		},
		"head":   func(ctx context.Context) error { _, err := b.Head(ctx, "key"); return err },
		"delete": func(ctx context.Context) error { return b.Delete(ctx, "key") },
		"list": func(ctx context.Context) error {
			for _, err := range b.List(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// secretless checks that an error is of a kind, in one line, and holds nothing
// that should not be read.
func secretless(t *testing.T, what string, err, kind error, says string) {
	t.Helper()
	text := fmt.Sprint(err)
	if !errors.Is(err, kind) || !strings.Contains(text, says) {
		t.Errorf("%s: got %q, want %q and %q", what, text, kind, says)
	}
	for _, secret := range []string{s3server.SecretKey, s3server.AccessKey, "wrong-secret-key", "Signature=", "\n"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s: %q is in %q", what, secret, text)
		}
	}
	t.Logf("%s: %s", what, text)
}

func TestWrongCredentialsAreDeniedWithAHint(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		store(t, s.Backend(t), "key", "content")
		for name, change := range map[string]func(*s3.Config){
			"secret key": func(c *s3.Config) { c.SecretKey = "wrong-secret-key" },
			"access key": func(c *s3.Config) { c.AccessKey = "wrong-access-key" },
		} {
			b := s.Backend(t, change)
			for call, f := range calls(b) {
				if call == "head" && name == "access key" && s.Kind() == s3server.VersityGW {
					continue // answers 404, and a HEAD has no body that would say why
				}
				secretless(t, name+", "+call, f(t.Context()), storage.ErrDenied, "; ")
			}
			get, put := signed(t, b, "key", time.Minute, 5)
			if g, p := ask(t, http.MethodGet, get, "", 0), ask(t, http.MethodPut, put, "12345", 5); g/100 != 4 || p/100 != 4 {
				t.Errorf("%s: what it signs is answered with %d and %d", name, g, p)
			}
		}
		if c := content(t, s.Backend(t), "key"); c != "content" {
			t.Errorf("the object is %q now", c)
		}
	})
}

func TestAMissingBucketIsNamed(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		b := s.Backend(t, func(c *s3.Config) { c.Bucket = "no-such-bucket" })
		for _, call := range []string{"put", "list", "get"} {
			secretless(t, call, calls(b)[call](t.Context()), storage.ErrNotFound, `bucket "no-such-bucket" has to exist`)
		}
	})
}

func TestAWrongClockIsNamed(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		// The bucket's own clock can't be set here, so its server is asked by
		// one that changes the date of what it was asked.
		proxy := newFaulty(t, s)
		proxy.date.Store(int64(-20 * time.Minute))
		for call, f := range calls(s.Backend(t, func(c *s3.Config) { c.Endpoint = proxy.url })) {
			secretless(t, call, f(t.Context()), storage.ErrDenied, "clock")
		}
	})
}

func TestAServerThatIsGoneIsUnavailableInsideTheDeadline(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		b := s.Backend(t, func(c *s3.Config) { c.Timeout = 3 * time.Second })
		store(t, b, "key", "content")
		s.Kill()
		for call, f := range calls(b) {
			begun := time.Now()
			secretless(t, call, f(t.Context()), storage.ErrUnavailable, "refused")
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("%s took %v", call, took)
			}
		}
		get, put := signed(t, b, "key", time.Minute, 5)
		s.Restart(t)
		if g, p := ask(t, http.MethodGet, get, "", 0), ask(t, http.MethodPut, put, "12345", 5); g != http.StatusOK || p != http.StatusOK {
			t.Errorf("what was signed while it was gone is answered with %d and %d", g, p)
		}
		if c := content(t, b, "key"); c != "12345" {
			t.Errorf("after its return the object is %q", c)
		}
	})
}

func TestAServerThatComesBackIsAskedAgain(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		proxy := newFaulty(t, s)
		b := s.Backend(t, func(c *s3.Config) { c.Endpoint = proxy.url })
		store(t, b, "key", "content")
		for _, fault := range []faultKind{cutBefore, answer503, cutAfter} {
			for call, f := range calls(b) {
				// The call before may have been the one that deletes.
				store(t, b, "key", "content")
				proxy.fail(fault, 1)
				if err := f(t.Context()); err != nil {
					t.Errorf("%s, %s: %v", fault, call, err)
				}
			}
			// What can't be wound back is sent once.
			proxy.fail(fault, 1)
			err := b.Put(t.Context(), "stream", io.MultiReader(strings.NewReader("12345")), 5)
			if !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s, a stream: %v", fault, err)
			}
		}
		proxy.fail(answer503, 100)
		for call, f := range calls(b) {
			asked := proxy.asked.Load()
			secretless(t, call, f(t.Context()), storage.ErrUnavailable, "503")
			if n := proxy.asked.Load() - asked; n != s3.DefaultTries {
				t.Errorf("%s was asked %d times, want %d", call, n, s3.DefaultTries)
			}
		}
	})
}

func TestATransferThatBreaksOffIsAnErrorAndNeverAShortRead(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		proxy := newFaulty(t, s)
		b := s.Backend(t, func(c *s3.Config) { c.Endpoint, c.Timeout = proxy.url, 5*time.Second })
		const size = 8 << 20
		large := bytes.Repeat([]byte("x"), size)
		if err := b.Put(t.Context(), "large", bytes.NewReader(large), size); err != nil {
			t.Fatal(err)
		}
		proxy.fail(cutInside, 1)
		r, o, err := b.Get(t.Context(), "large")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if len(got) >= size || o.Size != size {
			t.Errorf("%d bytes of %+v came through", len(got), o)
		}
		secretless(t, "get", err, storage.ErrUnavailable, "")
		// An upload that breaks off is sent again, and stored whole or not.
		proxy.fail(cutUpload, 1)
		if err := b.Put(t.Context(), "upload", bytes.NewReader(large), size); err != nil {
			t.Errorf("an upload that can be repeated: %v", err)
		}
		proxy.fail(cutUpload, 1)
		err = b.Put(t.Context(), "stream", io.MultiReader(bytes.NewReader(large)), size)
		secretless(t, "an upload that can't", err, storage.ErrUnavailable, "")
		if _, err := b.Head(t.Context(), "stream"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("half an object is there: %v", err)
		}
	})
}

func TestAServerThatIsKilledInTheMiddleIsAnError(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		b := s.Backend(t, func(c *s3.Config) { c.Timeout = 3 * time.Second })
		const size = 64 << 20 // more than the sockets hold
		if err := b.Put(t.Context(), "large", io.LimitReader(pattern{}, size), size); err != nil {
			t.Fatal(err)
		}
		r, _, err := b.Get(t.Context(), "large")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadFull(r, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		n, err := io.Copy(io.Discard, r)
		if n >= size-1<<20 {
			t.Errorf("%d bytes came through", n)
		}
		secretless(t, "get", err, storage.ErrUnavailable, "")
		s.Restart(t)
		sent := 0
		killer := readerFunc(func(p []byte) (int, error) {
			if sent += len(p); sent > size/2 {
				s.Kill()
			}
			return pattern{}.Read(p)
		})
		err = b.Put(t.Context(), "upload", io.LimitReader(killer, size), size)
		secretless(t, "put", err, storage.ErrUnavailable, "")
		s.Restart(t)
		if _, err := b.Head(t.Context(), "upload"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("half an object is there: %v", err)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestASlowServerIsGivenUpInsideTheDeadline(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		proxy := newFaulty(t, s)
		store(t, s.Backend(t), "key", "12345")
		store(t, s.Backend(t), "large", strings.Repeat("x", 8<<20))
		b := s.Backend(t, func(c *s3.Config) {
			c.Endpoint, c.Timeout, c.MinRate = proxy.url, 1500*time.Millisecond, 64<<20
		})
		within := func(what string, f func() error) {
			t.Helper()
			begun := time.Now()
			secretless(t, what, f(), storage.ErrUnavailable, "")
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("%s took %v", what, took)
			}
		}
		proxy.fail(silence, 1000)
		for call, f := range calls(b) {
			within(call, func() error { return f(t.Context()) })
		}
		proxy.fail(trickle, 1000)
		within("a large get", func() error {
			r, _, err := b.Get(t.Context(), "large")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		})
		within("a large put", func() error {
			return b.Put(t.Context(), "new", io.LimitReader(pattern{}, 64<<20), 64<<20)
		})
	})
}
