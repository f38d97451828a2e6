package inflate

import "io"

const (
	inputSize = 64 << 10
	// slack is how far behind the input's end the decoder may load, where it
	// finds zeros.
	slack = 32
	// reserve is how much input must be at hand for one turn of the decoder's
	// loop without a look at the end.
	reserve = 16
	// held is how much used input stays in the buffer, for a decoder that
	// gives back what it took too much of.
	held = 8
)

// Input is a buffer over a reader that a decoder takes from in words and hands
// back in bytes.
type Input struct {
	r    io.Reader
	buf  []byte
	n    int // valid bytes
	at   int
	read int64
	err  error // of r, io.EOF at the end
}

// NewInput returns an input that reads from r.
func NewInput(r io.Reader) *Input {
	in := &Input{buf: make([]byte, inputSize+slack)}
	in.Reset(r)
	return in
}

// Reset makes in read from r anew.
func (in *Input) Reset(r io.Reader) {
	in.r, in.n, in.at, in.read, in.err = r, 0, 0, 0, nil
}

// Taken returns how many bytes were read and used.
func (in *Input) Taken() int64 { return in.read - int64(in.n-in.at) }

// more moves what is left to the front, and reads once. It reports whether
// there is more now.
func (in *Input) more() bool {
	if in.err != nil {
		return false
	}
	if drop := in.at - held; drop > 0 {
		in.n = copy(in.buf, in.buf[drop:in.n])
		in.at = held
	}
	for range 100 {
		n, err := in.r.Read(in.buf[in.n:inputSize])
		in.n += n
		in.read += int64(n)
		in.err = err
		if n > 0 || err != nil {
			clear(in.buf[in.n : in.n+slack])
			return n > 0
		}
	}
	in.err = io.ErrNoProgress
	return false
}

// ReadByte implements io.ByteReader.
func (in *Input) ReadByte() (byte, error) {
	if in.at == in.n && !in.more() {
		return 0, in.err
	}
	b := in.buf[in.at]
	in.at++
	return b, nil
}

// Read implements io.Reader.
func (in *Input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if in.at == in.n && !in.more() {
		return 0, in.err
	}
	n := copy(p, in.buf[in.at:in.n])
	in.at += n
	return n, nil
}
