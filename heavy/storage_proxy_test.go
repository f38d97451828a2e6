package heavy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
)

// faultKind is what goes wrong between a worker and a server.
type faultKind string

const (
	cutBefore faultKind = "the connection is cut before the server hears of it"
	cutAfter  faultKind = "the connection is cut after the server did it"
	answer503 faultKind = "the answer is 503"
	cutInside faultKind = "the connection is cut in the middle of the answer"
	cutUpload faultKind = "the connection is cut in the middle of the request"
	silence   faultKind = "nothing comes"
	trickle   faultKind = "everything comes slowly"
)

// faulty is a proxy before a server on which things go wrong when they are told
// to.
type faulty struct {
	url   string
	asked atomic.Int64
	// date is how far the server's Date is moved, and with a date moved the
	// requests are refused as the server would refuse them.
	date  atomic.Int64
	proxy *httputil.ReverseProxy
	done  chan struct{}

	mu    sync.Mutex
	fault faultKind
	times int
}

func newFaulty(t *testing.T, s *s3server.Server) *faulty {
	t.Helper()
	target, err := url.Parse(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{done: make(chan struct{})}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: f.moveDate,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { cut(w) },
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(f.done) }) // before the server waits for its requests
	f.url = server.URL
	return f
}

// fail makes the next requests go wrong.
func (f *faulty) fail(kind faultKind, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.times = kind, times
}

func (f *faulty) next() faultKind {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == 0 {
		return ""
	}
	f.times--
	return f.fault
}

// ServeHTTP implements http.Handler.
func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	if moved := time.Duration(f.date.Load()); moved != 0 {
		// The signature does not cover this, but the server looks at it first.
		r.Header.Set("X-Amz-Date", time.Now().Add(moved).UTC().Format("20060102T150405Z"))
	}
	switch f.next() {
	case cutBefore:
		cut(w)
	case cutAfter:
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	case answer503:
		w.WriteHeader(http.StatusServiceUnavailable)
	case cutInside:
		f.proxy.ServeHTTP(&limited{ResponseWriter: w, left: 1 << 20}, r)
	case cutUpload:
		r.Body = io.NopCloser(io.LimitReader(r.Body, 1<<20))
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	case silence:
		f.wait(r, time.Hour)
	case trickle:
		r.Body = slow{r.Body, f, r}
		f.proxy.ServeHTTP(slowWriter{w, f, r}, r)
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

// moveDate makes the server's clock one that agrees with the moved requests'
// refusal.
func (f *faulty) moveDate(r *http.Response) error {
	if moved := time.Duration(f.date.Load()); moved != 0 {
		r.Header.Set("Date", time.Now().Add(-moved).UTC().Format(http.TimeFormat))
	}
	return nil
}

// wait waits, unless the request or the test ends.
func (f *faulty) wait(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-f.done:
	}
}

// cut ends the client's connection without an answer.
func cut(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// limited cuts the connection after so many bytes.
type limited struct {
	http.ResponseWriter
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return l.ResponseWriter.Write(p)
}

// The throttle lets 16 KiB through at a time, ten times a second.
const (
	sip      = 16 << 10
	sipPause = 100 * time.Millisecond
)

type slow struct {
	io.ReadCloser
	f *faulty
	r *http.Request
}

func (s slow) Read(p []byte) (int, error) {
	s.f.wait(s.r, sipPause)
	return s.ReadCloser.Read(p[:min(len(p), sip)])
}

type slowWriter struct {
	http.ResponseWriter
	f *faulty
	r *http.Request
}

func (s slowWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 && s.r.Context().Err() == nil {
		s.f.wait(s.r, sipPause)
		n, err := s.ResponseWriter.Write(p[:min(len(p), sip)])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
		_ = http.NewResponseController(s.ResponseWriter).Flush()
	}
	return written, s.r.Context().Err()
}
