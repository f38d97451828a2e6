package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Error is a fetch or a store that failed.
type Error struct {
	// Place is the URL without its query.
	Place string
	// Code is the stable name of the failure: wire.CodeNotFound,
	// wire.CodeSizeMismatch, wire.CodeNoSpace or wire.CodeIO.
	Code string
	// Err says what happened.
	Err error
	// again says that another attempt may do better.
	again bool
}

// Error is one line without the URL's query.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Place, e.Err) }

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the stable name of a failure, wire.CodeIO for one that has
// no other.
func CodeOf(err error) string {
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code != "":
		return e.Code
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return wire.CodeNoSpace
	case errors.Is(err, fs.ErrNotExist):
		return wire.CodeNotFound
	}
	return wire.CodeIO
}

// place is what an error may say of a URL.
func place(u *url.URL) string {
	const most = 512
	s := u.Scheme + "://" + u.Host + u.EscapedPath()
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// parse reads a URL of one of the three schemes.
func parse(raw string) (*url.URL, error) {
	if len(raw) > wire.URLCap {
		return nil, fmt.Errorf("a url has %d bytes, want at most %d", len(raw), wire.URLCap)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parse error would repeat the URL.
		return nil, errors.New("a url does not parse")
	}
	switch {
	case u.User != nil, u.Opaque != "", u.Fragment != "":
	case u.Scheme == "file" && u.Host == "" && len(u.Path) > 1 && u.Path[0] == '/' && u.RawQuery == "":
		return u, nil
	case (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "":
		return u, nil
	}
	return nil, errors.New("a url is none of file:///path, https://host and http://host")
}

// Check reports whether raw is a URL that this package can follow.
func Check(raw string) error {
	_, err := parse(raw)
	return err
}
