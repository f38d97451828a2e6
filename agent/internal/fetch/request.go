package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// response is the head of an answer and a reader of its body.
type response struct {
	io.Reader
	u    *url.URL
	conn *conn
	// length is the announced length of the body, -1 where none was.
	length int64
}

func (r *response) Close() { _ = r.conn.Close() }

// explain is what a failed read of the body means. A connection that breaks
// may not break the next time.
func (r *response) explain(err error) error {
	if err := context.Cause(r.conn.ctx); err != nil {
		return &Error{Place: place(r.u), Code: wire.CodeIO, Err: err}
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	e = passing(r.u, err)
	e.again = !errors.Is(err, errMalformed)
	return e
}

// get sends a GET and reads the head of a 200.
func (c *Client) get(ctx context.Context, u *url.URL) (*response, error) {
	return c.do(ctx, u, "GET", nil, func(status int) bool { return status == 200 })
}

// put sends a PUT of exactly body and waits for a 2xx.
func (c *Client) put(ctx context.Context, u *url.URL, body []byte) error {
	r, err := c.do(ctx, u, "PUT", body, func(status int) bool { return status >= 200 && status < 300 })
	if err == nil {
		r.Close()
	}
	return err
}

func (c *Client) do(ctx context.Context, u *url.URL, method string, body []byte, good func(int) bool) (*response, error) {
	k, err := c.dial(ctx, u)
	if err != nil {
		return nil, err
	}
	r, err := exchange(k, u, method, body, good)
	if err != nil {
		_ = k.Close()
		if cause := context.Cause(ctx); cause != nil {
			return nil, &Error{Place: place(u), Code: wire.CodeIO, Err: cause}
		}
		return nil, err
	}
	return r, nil
}

func exchange(k *conn, u *url.URL, method string, body []byte, good func(int) bool) (*response, error) {
	_, sendErr := io.WriteString(k, requestHead(u, method, body))
	if sendErr == nil && len(body) > 0 {
		_, sendErr = k.Write(body)
	}
	// A server may refuse before it has taken everything, and then closes: its
	// answer says more than the broken write.
	head, err := readHead(bufio.NewReaderSize(k, 16<<10))
	switch {
	case err != nil && sendErr != nil:
		return nil, passing(u, sendErr)
	case errors.Is(err, errMalformed):
		return nil, &Error{Place: place(u), Code: wire.CodeIO, Err: err}
	case err != nil:
		return nil, passing(u, err)
	case !good(head.status):
		return nil, statusError(u, head.status)
	case sendErr != nil:
		return nil, passing(u, sendErr)
	}
	return &response{Reader: head.body, u: u, conn: k, length: head.length}, nil
}

func requestHead(u *url.URL, method string, body []byte) string {
	var b strings.Builder
	b.WriteString(method + " " + u.RequestURI() + " HTTP/1.1\r\n")
	b.WriteString("Host: " + u.Host + "\r\nUser-Agent: batlehub-sandbox\r\nConnection: close\r\n")
	if method == "PUT" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	} else {
		// What is asked for is the stored bytes and not a packed form of them.
		b.WriteString("Accept-Encoding: identity\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// statusError says what a status means. A redirect is not followed: nobody
// but the manifest says where an input is.
func statusError(u *url.URL, status int) *Error {
	e := &Error{Place: place(u), Code: wire.CodeIO, Err: fmt.Errorf("the server answered %d", status)}
	switch {
	case status >= 300 && status < 400:
		e.Err = fmt.Errorf("the server answered %d, and a redirect is not followed", status)
	case status == 401 || status == 403:
		e.Err = fmt.Errorf("the server answered %d: the url was not signed for this, or has expired", status)
	case status == 404 || status == 410:
		e.Code = wire.CodeNotFound
	case status == 408 || status == 425 || status == 429 || status >= 500:
		e.again = true
	}
	return e
}
