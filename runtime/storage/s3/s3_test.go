package s3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
)

const secret = "a-secret-key-of-no-value"

func config(endpoint string) s3.Config {
	return s3.Config{Endpoint: endpoint, Bucket: "bundles", AccessKey: "an-access-key", SecretKey: secret, PathStyle: true}
}

func open(t *testing.T, c s3.Config) *s3.Backend {
	t.Helper()
	b, err := s3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// answering is a server that always says the same.
func answering(t *testing.T, status int, code string) (*s3.Backend, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		if code != "" && r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said of %s</Message></Error>", code, secret)
		}
	}))
	t.Cleanup(server.Close)
	return open(t, config(server.URL)), asked
}

func TestWhatAServerAnswersIsOfAKind(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		kind   error
		asked  int64
		says   string
	}{
		{404, "NoSuchKey", storage.ErrNotFound, 1, "NoSuchKey"},
		{404, "NoSuchBucket", storage.ErrNotFound, 1, `bucket "bundles" has to exist`},
		{404, "XAdminUserNotFound", storage.ErrDenied, 1, "does not know access_key"},
		{403, "AccessDenied", storage.ErrDenied, 1, "the credentials need to"},
		{403, "SignatureDoesNotMatch", storage.ErrDenied, 1, "secret_key does not belong"},
		{403, "InvalidAccessKeyId", storage.ErrDenied, 1, "does not know access_key"},
		{403, "RequestTimeTooSkewed", storage.ErrDenied, 1, "clock"},
		{403, "ExpiredToken", storage.ErrDenied, 1, "have to be renewed"},
		{400, "AuthorizationHeaderMalformed", storage.ErrDenied, 1, `region "us-east-1"`},
		{507, "XMinioStorageFull", storage.ErrNoSpace, 1, "507"},
		{500, "InternalError", storage.ErrUnavailable, 3, "500"},
		{503, "SlowDown", storage.ErrUnavailable, 3, "503"},
		{429, "", storage.ErrUnavailable, 3, "429"},
		{501, "NotImplemented", storage.ErrUnavailable, 1, "501"},
	} {
		b, asked := answering(t, c.status, c.code)
		err := b.Put(t.Context(), "key", strings.NewReader("x"), 1)
		e, ok := errors.AsType[*storage.Error](err)
		if !ok || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || e.Op != "put" || e.Backend != "s3" || e.Key != "key" {
			t.Errorf("%d %s: got %v", c.status, c.code, err)
		}
		if asked.Load() != c.asked {
			t.Errorf("%d %s: asked %d times, want %d", c.status, c.code, asked.Load(), c.asked)
		}
		if strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	}
}

func TestAHEADThatIsRefusedStillNamesTheClock(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-20*time.Minute).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	_, err := open(t, config(server.URL)).Head(t.Context(), "key")
	if !errors.Is(err, storage.ErrDenied) || !strings.Contains(err.Error(), "this host's clock is 20m") || !strings.Contains(err.Error(), "ahead of the server's") {
		t.Errorf("got %v", err)
	}
}

func TestPresigningAsksNoServer(t *testing.T) {
	// Nothing listens at this address, and its name could not be resolved.
	for endpoint, host := range map[bool]string{true: "storage.invalid:9", false: "bundles.storage.invalid:9"} {
		c := config("http://storage.invalid:9")
		c.PathStyle, c.Region = endpoint, "eu-west-3"
		b := open(t, c)
		begun := time.Now()
		get, err := b.PresignGet(t.Context(), "dir/a key", 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		put, err := b.PresignPut(t.Context(), "dir/a key", 1500*time.Millisecond, 65536)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		for what, want := range map[string]struct{ url, expires, headers string }{
			"get": {get, "90", "host"}, "put": {put, "2", "content-length;host"},
		} {
			u, err := url.Parse(want.url)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			if u.Host != host || !strings.HasSuffix(u.Path, "/dir/a key") || strings.HasPrefix(u.Path, "/bundles/") != c.PathStyle {
				t.Errorf("%s: %s%s", what, u.Host, u.Path)
			}
			if q.Get("X-Amz-Expires") != want.expires || q.Get("X-Amz-SignedHeaders") != want.headers {
				t.Errorf("%s: it expires after %s and signs %s", what, q.Get("X-Amz-Expires"), q.Get("X-Amz-SignedHeaders"))
			}
			if !strings.Contains(q.Get("X-Amz-Credential"), "/eu-west-3/s3/") {
				t.Errorf("%s: signed for %s", what, q.Get("X-Amz-Credential"))
			}
		}
	}
}

func TestAURLsLifeHasBounds(t *testing.T) {
	b := open(t, config("http://storage.invalid"))
	for _, ttl := range []time.Duration{0, -time.Second, 8 * 24 * time.Hour} {
		if u, err := b.PresignGet(t.Context(), "key", ttl); err == nil || !strings.Contains(err.Error(), "one second to seven days") {
			t.Errorf("%v: got %s, %v", ttl, u, err)
		}
	}
}

func TestAConfigurationThatCouldNotWorkIsRefusedInOneLine(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(notPEM, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*s3.Config){
		"want https://host":        func(c *s3.Config) { c.Endpoint = "storage.example" },
		"has user information":     func(c *s3.Config) { c.Endpoint = "https://me:" + secret + "@storage.example" },
		"has more than a host":     func(c *s3.Config) { c.Endpoint = "https://storage.example/bucket" },
		"does not parse":           func(c *s3.Config) { c.Endpoint = "https://%zz" },
		"no bucket":                func(c *s3.Config) { c.Bucket = "" },
		"are both needed":          func(c *s3.Config) { c.SecretKey = "" },
		"reading ca_file":          func(c *s3.Config) { c.CAFile = "/nowhere/ca.pem" },
		"holds no certificate":     func(c *s3.Config) { c.CAFile = notPEM },
		`endpoint "ftp://storage"`: func(c *s3.Config) { c.Endpoint = "ftp://storage" },
	} {
		c := config("https://storage.example")
		change(&c)
		_, err := s3.New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNothingPrintsTheCredentials(t *testing.T) {
	c := config("https://storage.example")
	c.SessionToken = "a-session-token"
	b := open(t, c)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, c, c), fmt.Sprintf("%v %+v %#v", &c, &c, &c),
		fmt.Sprint(b), fmt.Sprintf("%+v %#v %s", b, b, b), string(text),
	} {
		for _, hidden := range []string{c.AccessKey, c.SecretKey, c.SessionToken} {
			if strings.Contains(s, hidden) {
				t.Errorf("%q holds %q", s, hidden)
			}
		}
	}
}

func TestACertificateThatNobodyTrustsIsNamed(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	_, err := open(t, config(server.URL)).Head(t.Context(), "key")
	if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	quiet := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-quiet:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(quiet) })
	c := config(server.URL)
	c.Timeout = 300 * time.Millisecond
	b := open(t, c)
	begun := time.Now()
	if _, err := b.Head(t.Context(), "key"); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller went away")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := b.Head(ctx, "key"); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
