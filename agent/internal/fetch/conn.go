package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// conn is one connection for one request. It may not stand still for longer
// than idle, and closes when its context ends.
type conn struct {
	net.Conn
	idle time.Duration
	ctx  context.Context //nolint:containedctx // one connection lives for one request
	stop func() bool
}

func (c *conn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *conn) Write(b []byte) (int, error) {
	// In pieces, so that a slow reader is not taken for one that stands still.
	const piece = 64 << 10
	sent := 0
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
			return sent, err
		}
		n, err := c.Conn.Write(b[sent:min(len(b), sent+piece)])
		sent += n
		if err != nil || sent == len(b) {
			return sent, err
		}
	}
}

func (c *conn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// dial connects to u's host. It asks no proxy.
func (c *Client) dial(ctx context.Context, u *url.URL) (*conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := net.Dialer{Timeout: min(10*time.Second, c.idle()), Resolver: &net.Resolver{PreferGo: true}}
	tcp, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, passing(u, err)
	}
	k := &conn{Conn: tcp, idle: c.idle(), ctx: ctx}
	k.stop = context.AfterFunc(ctx, func() { tcp.Close() })
	if u.Scheme == "http" {
		return k, nil
	}
	roots, err := c.roots()
	if err != nil {
		_ = k.Close()
		return nil, &Error{Place: place(u), Code: wire.CodeIO, Err: err}
	}
	secure := tls.Client(k, &tls.Config{
		ServerName: u.Hostname(), MinVersion: tls.VersionTLS12,
		RootCAs: roots, NextProtos: []string{"http/1.1"},
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = k.Close()
		return nil, handshakeError(u, err)
	}
	return &conn{Conn: secure, idle: k.idle, ctx: ctx, stop: k.stop}, nil
}

// handshakeError tells a certificate that will be wrong the next time too
// from a connection that broke.
func handshakeError(u *url.URL, err error) *Error {
	e := passing(u, err)
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &alert) || errors.As(err, &record) {
		e.again = false
	}
	return e
}

// passing is a failure of the network, which another attempt may not meet.
func passing(u *url.URL, err error) *Error {
	return &Error{Place: place(u), Code: wire.CodeIO, Err: err, again: true}
}

func (c *Client) roots() (*x509.CertPool, error) {
	if c.Roots != nil {
		return c.Roots, nil
	}
	return trusted()
}
