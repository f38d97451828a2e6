package storage

import (
	"errors"
	"fmt"
	"io"
)

// SizeError is a reader that is not as long as was announced. It wraps
// ErrSize.
type SizeError struct {
	// Want is the length in bytes that was announced.
	Want int64
	// Got is the length that was found, or Want+1 for anything longer.
	Got int64
}

// Error says both lengths.
func (e *SizeError) Error() string {
	if e.Got > e.Want {
		return fmt.Sprintf("there are more than the %d announced bytes", e.Want)
	}
	return fmt.Sprintf("there are %d bytes, %d were announced", e.Got, e.Want)
}

// Unwrap returns ErrSize.
func (*SizeError) Unwrap() error { return ErrSize }

// Exactly returns r as a reader that ends after exactly size bytes, and fails
// with a *SizeError otherwise. Its last bytes are held back until r is seen to
// end after them, so that whoever stores what it reads never has the whole of
// a reader that is too long.
func Exactly(r io.Reader, size int64) io.Reader { return &exactly{r: r, size: size} }

type exactly struct {
	r          io.Reader
	size, read int64
	err        error
}

// Read implements io.Reader.
func (e *exactly) Read(p []byte) (int, error) {
	if e.err != nil || len(p) == 0 {
		return 0, e.err
	}
	left := e.size - e.read
	n := 0
	if left > 0 {
		n, e.err = e.r.Read(p[:min(int64(len(p)), left)])
		e.read += int64(n)
	}
	if e.read == e.size && (e.err == nil || errors.Is(e.err, io.EOF)) {
		e.err = e.end()
	}
	switch {
	case e.err == nil || e.read == e.size && errors.Is(e.err, io.EOF):
		return n, e.err
	case errors.Is(e.err, io.EOF):
		e.err = &SizeError{Want: e.size, Got: e.read}
	}
	return 0, e.err
}

// end looks that r has ended, and returns io.EOF if it has.
func (e *exactly) end() error {
	n, err := io.ReadFull(e.r, make([]byte, 1))
	switch {
	case n > 0:
		return &SizeError{Want: e.size, Got: e.size + 1}
	case err == nil:
		return io.EOF
	}
	return err
}
