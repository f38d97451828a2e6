package s3

import (
	"errors"
	"io"
	"sync"
)

// watched keeps the error of the reader that an upload reads, which the HTTP
// client may hide behind one of its own. It reads on another goroutine than
// the one that asks.
type watched struct {
	r   io.Reader
	mu  sync.Mutex
	err error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
	return n, err
}

func (w *watched) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// download is an object on its way here. It ends with io.EOF after exactly the
// object's bytes, and with an *storage.Error otherwise.
type download struct {
	call *call
	body io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	d.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && d.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, d.call.explain(err)
}

// Close implements io.Closer.
func (d *download) Close() error {
	err := d.body.Close()
	d.call.end()
	return err
}
