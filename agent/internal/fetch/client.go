package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Client fetches and stores. The zero value has the bounds that the agent
// uses; it is safe for concurrent use.
type Client struct {
	// Roots are the certificate authorities that are trusted; nil means the
	// room's own, and those compiled in where it has none.
	Roots *x509.CertPool
	// Idle is how long a connection may stand still; zero means 30 s.
	Idle time.Duration
	// Insist is for how long failures that may pass are tried again; zero
	// means 60 s. A network policy may let a new pod's packets through only
	// after a second or more.
	Insist time.Duration
}

func (c *Client) idle() time.Duration   { return orElse(c.Idle, 30*time.Second) }
func (c *Client) insist() time.Duration { return orElse(c.Insist, 60*time.Second) }

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Bytes returns the content at raw, at most limit bytes.
func (c *Client) Bytes(ctx context.Context, raw string, limit int64) ([]byte, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return bytesOfFile(u, limit)
	}
	var b []byte
	err = c.retry(ctx, func() error {
		r, err := c.get(ctx, u)
		if err != nil {
			return err
		}
		defer r.Close()
		if r.length > limit {
			return tooMany(u, limit)
		}
		b, err = io.ReadAll(io.LimitReader(r, limit+1))
		if err != nil {
			return r.explain(err)
		}
		if int64(len(b)) > limit {
			return tooMany(u, limit)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func bytesOfFile(u *url.URL, limit int64) ([]byte, error) {
	f, size, err := openFile(u)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, tooMany(u, limit)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, &Error{Place: place(u), Code: wire.CodeIO, Err: err}
	case int64(len(b)) > limit:
		return nil, tooMany(u, limit)
	}
	return b, nil
}

func tooMany(u *url.URL, limit int64) *Error {
	return &Error{Place: place(u), Code: wire.CodeSizeMismatch, Err: fmt.Errorf("more than %d bytes", limit)}
}

// Open returns the content at raw as a file that can be read from its
// beginning, of exactly size bytes. What is not a file already is written to
// one that spool makes; on an error that one is closed.
func (c *Client) Open(ctx context.Context, raw string, size int64, spool func() (*os.File, error)) (*os.File, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		f, got, err := openFile(u)
		if err == nil && got != size {
			f.Close()
			return nil, mismatch(u, fmt.Sprintf("%d bytes", got), size)
		}
		return f, err
	}
	f, err := spool()
	if err != nil {
		return nil, err
	}
	err = c.retry(ctx, func() error {
		if err := rewind(f); err != nil {
			return err
		}
		return c.download(ctx, u, size, f)
	})
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func rewind(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func (c *Client) download(ctx context.Context, u *url.URL, size int64, to io.Writer) error {
	r, err := c.get(ctx, u)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.length >= 0 && r.length != size {
		return mismatch(u, fmt.Sprintf("%d bytes announced", r.length), size)
	}
	// Reading stops one byte past the declared size, whatever is sent.
	n, err := io.Copy(onlyWriter{to}, io.LimitReader(r, size+1))
	var write *writeError
	switch {
	case errors.As(err, &write):
		return write.err
	case err != nil:
		return r.explain(err)
	case n > size:
		return mismatch(u, "more bytes", size)
	case n < size:
		return mismatch(u, fmt.Sprintf("%d bytes", n), size)
	}
	return nil
}

// onlyWriter tells an error of the file from one of the connection.
type onlyWriter struct{ w io.Writer }

type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func (w onlyWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// Put stores body at an http or https URL.
func (c *Client) Put(ctx context.Context, raw string, body []byte) error {
	u, err := parse(raw)
	if err != nil {
		return err
	}
	if u.Scheme == "file" {
		return &Error{Place: place(u), Code: wire.CodeIO, Err: errors.New("a file is not put")}
	}
	return c.retry(ctx, func() error { return c.put(ctx, u, body) })
}

// patience is how long pauses do not grow: a pod's network can be a second
// behind the pod, and whoever waits longer than that waits for a server.
const patience = 1500 * time.Millisecond

// retry repeats what may do better another time, with pauses that grow.
func (c *Client) retry(ctx context.Context, attempt func() error) error {
	began := time.Now()
	deadline := began.Add(c.insist())
	for pause := 100 * time.Millisecond; ; {
		if time.Since(began) > patience {
			pause = min(2*pause, 2*time.Second)
		}
		err := attempt()
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.again || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
