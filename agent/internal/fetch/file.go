package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// FilePath returns the path of a file:// URL, and false for any other.
func FilePath(raw string) (string, bool) {
	u, err := parse(raw)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	return u.Path, true
}

// openFile opens a regular file for reading and returns its size. A link at
// its place is not followed, and a FIFO there does not block.
func openFile(u *url.URL) (*os.File, int64, error) {
	f, err := os.OpenFile(u.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, 0, &Error{Place: place(u), Code: CodeOf(err), Err: err}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, &Error{Place: place(u), Code: wire.CodeIO, Err: err}
	}
	return f, info.Size(), nil
}

func mismatch(u *url.URL, got string, want int64) *Error {
	return &Error{Place: place(u), Code: wire.CodeSizeMismatch, Err: fmt.Errorf("%s, want exactly %d", got, want)}
}
