package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

const secret = "X-Amz-Signature=topsecret"

// server starts an HTTP server and returns a URL on it that is signed.
func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/bucket/key?" + secret
}

// raw starts a server that reads a request's head and answers with the bytes.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				if _, err := c.Read(b); err == nil {
					answer(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/x?" + secret
}

func says(t *testing.T, s string) string {
	t.Helper()
	return raw(t, func(c net.Conn) { _, _ = io.WriteString(c, s) })
}

// quick does not insist for long on what keeps failing.
func quick() *fetch.Client {
	return &fetch.Client{Idle: 2 * time.Second, Insist: 300 * time.Millisecond}
}

func spool(t *testing.T) func() (*os.File, error) {
	return func() (*os.File, error) {
		return os.OpenFile(filepath.Join(t.TempDir(), "spool"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
}

// download opens url, wanting size bytes, and returns what came.
func download(t *testing.T, c *fetch.Client, url string, size int64) (string, error) {
	t.Helper()
	f, err := c.Open(t.Context(), url, size, spool(t))
	if err != nil {
		if strings.Contains(err.Error(), "topsecret") {
			t.Errorf("the error has the signature in it: %v", err)
		}
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), nil
}

func wantCode(t *testing.T, err error, code, text string) {
	t.Helper()
	if err == nil || fetch.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("err %v (%s), want %s with %q", err, fetch.CodeOf(err), code, text)
	}
}

func TestAnInputIsFetchedWithOneGET(t *testing.T) {
	var requests atomic.Int64
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method != http.MethodGet || r.URL.RequestURI() != "/bucket/key?"+secret || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		_, _ = io.WriteString(w, "content")
	})
	if got, err := download(t, quick(), url, 7); got != "content" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestEveryWayToEndABodyIsRead(t *testing.T) {
	for name, answer := range map[string]string{
		"length":       "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent",
		"closed":       "HTTP/1.0 200 OK\r\n\r\ncontent",
		"chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncon\r\n4;x=y\r\ntent\r\n0\r\nTrailer: x\r\n\r\n",
		"bare lines":   "HTTP/1.1 200\nContent-Length: 7\n\ncontent",
		"interim":      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent",
		"twice":        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\ncontent",
		"more behind":  "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontentHTTP/1.1 200 OK",
		"empty header": "HTTP/1.1 200 OK\r\nX:\r\nContent-Length:7\r\n\r\ncontent",
	} {
		if got, err := download(t, quick(), says(t, answer), 7); got != "content" || err != nil {
			t.Errorf("%s: %q (%v)", name, got, err)
		}
	}
}

func TestAnAnswerThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"two lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\ncontent",
		"both":           "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n",
		"signed length":  "HTTP/1.1 200 OK\r\nContent-Length: +7\r\n\r\ncontent",
		"negative":       "HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\ncontent",
		"list":           "HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n\r\ncontent",
		"huge":           "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\ncontent",
		"gzip":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"packed":         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\ncontent",
		"folded":         "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 7\r\n\r\ncontent",
		"space in name":  "HTTP/1.1 200 OK\r\nContent-Length : 7\r\n\r\ncontent",
		"no colon":       "HTTP/1.1 200 OK\r\nnonsense\r\n\r\ncontent",
		"other protocol": "SSH-2.0-x\r\n\r\n",
		"version":        "HTTP/2.0 200 OK\r\n\r\ncontent",
		"bad status":     "HTTP/1.1 2x0 OK\r\n\r\ncontent",
		"chunk size":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"chunk sign":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-7\r\ncontent\r\n0\r\n\r\n",
		"chunk end":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nconXX4\r\ntent\r\n0\r\n\r\n",
		"chunk line":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7;" + strings.Repeat("x", 300) + "\r\ncontent\r\n0\r\n\r\n",
		"long head":      "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
		"many headers":   "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n",
		"endless 1xx":    strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 5000),
	} {
		_, err := download(t, quick(), says(t, answer), 7)
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestMoreOrLessThanTheDeclaredSizeIsAMismatch(t *testing.T) {
	for name, answer := range map[string]string{
		"announced more": "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ncontent!",
		"announced less": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nconten",
		"announced huge": "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\ncontent",
		"more":           "HTTP/1.1 200 OK\r\n\r\ncontent!",
		"less":           "HTTP/1.1 200 OK\r\n\r\nconten",
		"chunked more":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ncontent!\r\n0\r\n\r\n",
		"chunked less":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nconten\r\n0\r\n\r\n",
		"chunk of 2^63":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\ncontent!!",
	} {
		_, err := download(t, quick(), says(t, answer), 7)
		if err == nil {
			t.Errorf("%s was taken", name)
			continue
		}
		if code := fetch.CodeOf(err); code != wire.CodeSizeMismatch {
			t.Errorf("%s: %v (%s)", name, err, code)
		}
	}
}

func TestAnEndlessBodyIsReadOneBytePastItsSize(t *testing.T) {
	var sent atomic.Int64
	url := raw(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		b := make([]byte, 64<<10)
		for {
			n, err := c.Write(b)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	_, err := download(t, quick(), url, 7)
	wantCode(t, err, wire.CodeSizeMismatch, "more bytes")
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("the server could send %d bytes", n)
	}
}

func TestABodyThatBreaksOffIsFetchedAgain(t *testing.T) {
	var requests atomic.Int64
	url := raw(t, func(c net.Conn) {
		body := "content"
		if requests.Add(1) == 1 {
			body = "XX"
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"+body)
	})
	if got, err := download(t, &fetch.Client{Insist: time.Minute}, url, 7); got != "content" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

// reset ends a connection with an RST, and not as one that was closed.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func TestAConnectionThatIsResetIsTriedAgain(t *testing.T) {
	for at, before := range map[string]func(net.Conn){
		"before the answer": func(net.Conn) {},
		"inside the head":   func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-") },
		"inside the body":   func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nXX") },
	} {
		var requests atomic.Int64
		url := raw(t, func(c net.Conn) {
			if requests.Add(1) == 1 {
				before(c)
				reset(c)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent")
		})
		if got, err := download(t, &fetch.Client{Insist: time.Minute}, url, 7); got != "content" || err != nil || requests.Load() != 2 {
			t.Errorf("%s: %q after %d requests (%v)", at, got, requests.Load(), err)
		}
	}
}

func TestAPutThatBreaksOffIsSentAgainFromItsBeginning(t *testing.T) {
	body := bytes.Repeat([]byte("r"), 4<<20)
	var requests atomic.Int64
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			reset(c)
			return
		}
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes (%v)", len(got), err)
		}
	})
	if err := (&fetch.Client{Insist: time.Minute}).Put(t.Context(), url, body); err != nil || requests.Load() != 2 {
		t.Errorf("%d requests (%v)", requests.Load(), err)
	}
}

func TestAPutThatWasNotSignedForIsSentOnceAndFollowsNoRedirect(t *testing.T) {
	for status, says := range map[int]string{403: "expired", 307: "redirect is not followed", 400: "400"} {
		var requests atomic.Int64
		url := server(t, func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		err := (&fetch.Client{Insist: time.Minute}).Put(t.Context(), url, []byte("r"))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "topsecret") || requests.Load() != 1 {
			t.Errorf("%d: %d requests (%v)", status, requests.Load(), err)
		}
	}
}

func TestAServerThatStandsStillIsGivenUp(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	url := raw(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncon")
		<-done
	})
	_, err := download(t, &fetch.Client{Idle: 50 * time.Millisecond, Insist: 100 * time.Millisecond}, url, 7)
	wantCode(t, err, wire.CodeIO, "timeout")
}

func TestASlowServerThatKeepsGoingIsWaitedFor(t *testing.T) {
	url := raw(t, func(c net.Conn) {
		for _, b := range "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent" {
			time.Sleep(2 * time.Millisecond) //nolint:forbidigo // slowness is what is tested
			_, _ = c.Write([]byte{byte(b)})
		}
	})
	if got, err := download(t, &fetch.Client{Idle: time.Second}, url, 7); got != "content" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

func TestWhatMayPassIsTriedAgainAndWhatMayNotIsNot(t *testing.T) {
	for status, again := range map[int]bool{503: true, 500: true, 429: true, 408: true, 403: false, 404: false, 410: false, 400: false, 301: false, 307: false, 304: false, 206: false, 204: false} {
		var requests atomic.Int64
		url := server(t, func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 1 {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				return
			}
			_, _ = io.WriteString(w, "content")
		})
		got, err := download(t, &fetch.Client{Insist: time.Minute}, url, 7)
		if again && (got != "content" || err != nil || requests.Load() != 2) {
			t.Errorf("%d: %q after %d requests (%v)", status, got, requests.Load(), err)
		}
		if !again && (err == nil || requests.Load() != 1 || !strings.Contains(err.Error(), fmt.Sprint(status))) {
			t.Errorf("%d: %d requests (%v)", status, requests.Load(), err)
		}
		if missing := status == 404 || status == 410; !again && (fetch.CodeOf(err) == wire.CodeNotFound) != missing {
			t.Errorf("%d: code %s", status, fetch.CodeOf(err))
		}
	}
}

func TestAPortThatOpensLaterIsReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	failed := make(chan struct{})
	time.AfterFunc(250*time.Millisecond, func() { close(failed) })
	go func() {
		<-failed
		l, err := net.Listen("tcp", address)
		if err != nil {
			return
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") })}
		t.Cleanup(func() { s.Close() })
		_ = s.Serve(l)
	}()
	if got, err := download(t, &fetch.Client{Insist: time.Minute}, "http://"+address+"/x", 7); got != "content" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

func TestTheContextEndsAFetchAtOnce(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	arrived := make(chan struct{})
	url := raw(t, func(net.Conn) { close(arrived); <-done })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := (&fetch.Client{}).Bytes(ctx, url, 10)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err %v", err)
	}
}

func TestTheBytesOfADocumentAreBounded(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") })
	if b, err := quick().Bytes(t.Context(), url, 7); string(b) != "content" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	_, err := quick().Bytes(t.Context(), url, 6)
	wantCode(t, err, wire.CodeSizeMismatch, "more than 6 bytes")
	_, err = quick().Bytes(t.Context(), says(t, "HTTP/1.1 200 OK\r\n\r\ncontent"), 6)
	wantCode(t, err, wire.CodeSizeMismatch, "more than 6 bytes")
}

func TestTheResultIsPutWithItsExactLength(t *testing.T) {
	body := bytes.Repeat([]byte("r"), 300_000)
	var requests atomic.Int64
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPut || r.ContentLength != int64(len(body)) || len(r.TransferEncoding) != 0 || err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s of %d bytes, %d announced (%v)", r.Method, len(got), r.ContentLength, err)
		}
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if err := (&fetch.Client{Insist: time.Minute}).Put(t.Context(), url, body); err != nil {
		t.Error(err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestAPutThatIsRefusedBeforeItWasReadSaysWhy(t *testing.T) {
	url := raw(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.CopyN(io.Discard, c, 64<<20)
	})
	err := quick().Put(t.Context(), url, make([]byte, 8<<20))
	wantCode(t, err, wire.CodeIO, "403")
	if strings.Contains(err.Error(), "topsecret") {
		t.Errorf("the error has the signature in it: %v", err)
	}
}

func secure(t *testing.T, version uint16) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }))
	s.TLS = &tls.Config{MaxVersion: version, MinVersion: tls.VersionTLS10}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, pool
}

func TestACertificateMustBeSignedByARoot(t *testing.T) {
	s, pool := secure(t, tls.VersionTLS13)
	c := quick()
	c.Roots = pool
	if got, err := download(t, c, s.URL+"/x", 7); got != "content" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	for name, pool := range map[string]*x509.CertPool{"empty": x509.NewCertPool(), "the room's": nil} {
		c := &fetch.Client{Roots: pool, Insist: time.Hour}
		_, err := download(t, c, s.URL+"/x?"+secret, 7)
		if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("%s roots: %v", name, err)
		}
	}
	// The certificate is for 127.0.0.1 and example.com.
	c.Insist = time.Hour
	_, err := download(t, c, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/x", 7)
	wantCode(t, err, wire.CodeIO, "certificate")
}

func TestTLSOlderThan12IsRefused(t *testing.T) {
	for version, taken := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		s, pool := secure(t, version)
		c := quick()
		c.Roots = pool
		if _, err := download(t, c, s.URL+"/x", 7); (err == nil) != taken {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

func TestNoProxyAndNoVariableIsAsked(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	s, pool := secure(t, tls.VersionTLS13)
	t.Setenv("SSL_CERT_FILE", "/no/such/file")
	t.Setenv("SSL_CERT_DIR", "/no/such/directory")
	c := quick()
	c.Roots = pool
	for _, url := range []string{s.URL + "/x", server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") })} {
		if got, err := download(t, c, url, 7); got != "content" || err != nil {
			t.Errorf("%q (%v)", got, err)
		}
	}
	if asked.Load() != 0 {
		t.Error("the proxy was asked")
	}
}
