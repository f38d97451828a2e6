package wire

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
)

// The members of a result tar, in their order.
const (
	memberResult = "result.json"
	memberStdout = "stdout"
)

// EncodeResult returns the result tar: result.json sealed under key, then
// stdout. Where sizes are given it is padded with zeros, which are tar's own
// end marker, to the smallest of them that holds it; the index of that size is
// returned, or -1 without sizes. Sizes must rise.
func EncodeResult(r *Result, stdout []byte, key SealKey, sizes []int64) (b []byte, index int, err error) {
	if len(stdout) > StdoutCap {
		return nil, -1, fmt.Errorf("%w: stdout has %d bytes, want at most %d", ErrResult, len(stdout), StdoutCap)
	}
	document, err := r.encode(key, stdout)
	if err != nil {
		return nil, -1, err
	}
	var buf bytes.Buffer
	for _, m := range []struct {
		name string
		data []byte
	}{{memberResult, document}, {memberStdout, stdout}} {
		header := ustarHeader(m.name, len(m.data))
		buf.Write(header[:])
		buf.Write(m.data)
		buf.Write(make([]byte, padded(len(m.data))-len(m.data)))
	}
	buf.Write(make([]byte, 2*tarBlock))
	return pad(buf.Bytes(), sizes)
}

func pad(b []byte, sizes []int64) ([]byte, int, error) {
	if len(sizes) == 0 {
		return b, -1, nil
	}
	for i, size := range sizes {
		if int64(len(b)) <= size {
			return append(b, make([]byte, size-int64(len(b)))...), i, nil
		}
	}
	return nil, -1, fmt.Errorf("%w: %d bytes, the largest signed size is %d", ErrResult, len(b), sizes[len(sizes)-1])
}

// ErrSeal is a result whose seal does not fit: something other than the agent
// wrote or changed it.
var ErrSeal = errors.New("the seal does not fit: not the agent's result")

// DecodeResult reads a result tar as what it is: hostile input. It takes
// exactly the two members in their order, each under its cap, nothing but
// zeros behind them, and a seal made with key.
func DecodeResult(b []byte, key SealKey) (*Result, []byte, error) {
	if len(b) > ResultTarCap {
		return nil, nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrResult, len(b), ResultTarCap)
	}
	tr := &resultReader{b: b}
	document := tr.member(memberResult, ResultJSONCap)
	stdout := tr.member(memberStdout, StdoutCap)
	if err := tr.end(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	var e envelope
	if err := decodeStrict(document, &e); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	mac, err := hex.DecodeString(e.Seal)
	if err != nil || !hmac.Equal(mac, key.seal(e.Result, stdout)) {
		return nil, nil, fmt.Errorf("%w: %w", ErrResult, ErrSeal)
	}
	r, err := decodeBody(e.Result)
	return r, stdout, err
}

func decodeBody(body []byte) (*Result, error) {
	if err := checkVersion(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	r := new(Result)
	if err := decodeStrict(body, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	return r, r.validate()
}

// resultReader takes a result tar apart, in the one form that EncodeResult
// writes.
type resultReader struct {
	b   []byte
	err error
}

func (r *resultReader) member(name string, limit int) []byte {
	if r.err != nil {
		return nil
	}
	if len(r.b) < tarBlock {
		r.err = fmt.Errorf("member %q is missing", name)
		return nil
	}
	size, ok := ustarSize(r.b, name)
	switch {
	case !ok:
		r.err = fmt.Errorf("a header of %.64q, want the file %q", bytes.TrimRight(r.b[:100], "\x00"), name)
	case size > limit:
		r.err = fmt.Errorf("member %q has %d bytes, want at most %d", name, size, limit)
	case tarBlock+padded(size) > len(r.b):
		r.err = fmt.Errorf("member %q is cut short", name)
	}
	if r.err != nil {
		return nil
	}
	data := r.b[tarBlock : tarBlock+size]
	r.b = r.b[tarBlock+padded(size):]
	return data
}

// padded is n rounded up to whole blocks.
func padded(n int) int { return (n + tarBlock - 1) / tarBlock * tarBlock }

// end takes the end marker and any padding behind it.
func (r *resultReader) end() error {
	switch {
	case r.err != nil:
		return r.err
	case len(r.b) < 2*tarBlock:
		return errors.New("the end is missing")
	case len(bytes.TrimLeft(r.b, "\x00")) > 0:
		return errors.New("data behind the last member")
	}
	return nil
}
