package inflate

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// The faults of a gzip stream beyond those of the DEFLATE stream in it.
var (
	ErrHeader   = errors.New("malformed gzip header")
	ErrChecksum = errors.New("gzip: wrong checksum or length")
	ErrTrailing = errors.New("data follows the last gzip member")
)

// Gzip reads every member of a gzip file, as gzip(1) does. Zeros may follow
// the last one, as on a tape; anything else is ErrTrailing.
type Gzip struct {
	in    *Input
	body  *Reader
	begun bool
	sum   uint32
	size  uint32
	count int
	err   error
}

// NewGzip returns a reader of the members that in stands at.
func NewGzip(in *Input) *Gzip { return &Gzip{in: in, body: NewReader(in)} }

// Read implements io.Reader.
func (g *Gzip) Read(p []byte) (int, error) {
	for g.err == nil {
		if !g.begun {
			g.err = g.begin()
			continue
		}
		n, err := g.body.Read(p)
		g.sum = crc32.Update(g.sum, crc32.IEEETable, p[:n])
		g.size += uint32(n)
		if n > 0 {
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			err = g.end()
		}
		g.err = err
	}
	return 0, g.err
}

const (
	flagHeaderSum = 1 << 1
	flagExtra     = 1 << 2
	flagName      = 1 << 3
	flagComment   = 1 << 4
	flagReserved  = 0xe0
)

// begin reads a member's header, or finds the end.
func (g *Gzip) begin() error {
	first, err := g.in.ReadByte()
	if err != nil {
		return err
	}
	if first == 0 && g.count > 0 {
		return g.padding()
	}
	h := header{in: g.in, sum: crc32.Update(0, crc32.IEEETable, []byte{first})}
	magic := h.byte()
	if g.count > 0 && (first != 0x1f || h.err != nil || magic != 0x8b) {
		if h.err != nil && !errors.Is(h.err, io.EOF) {
			return h.err
		}
		return ErrTrailing
	}
	method, flags := h.byte(), h.byte()
	for range 6 {
		h.byte()
	}
	if h.err == nil && (first != 0x1f || magic != 0x8b || method != 8 || flags&flagReserved != 0) {
		return ErrHeader
	}
	if flags&flagExtra != 0 {
		for n := int(h.byte()) | int(h.byte())<<8; n > 0 && h.err == nil; n-- {
			h.byte()
		}
	}
	for _, flag := range []byte{flagName, flagComment} {
		for flags&flag != 0 && h.byte() != 0 && h.err == nil {
		}
	}
	if flags&flagHeaderSum != 0 {
		want := uint16(h.sum)
		if got := uint16(h.byte()) | uint16(h.byte())<<8; h.err == nil && got != want {
			return ErrHeader
		}
	}
	if errors.Is(h.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	g.body.Reset(g.in)
	g.begun, g.sum, g.size, g.count = true, 0, 0, g.count+1
	return h.err
}

// header reads a header's bytes, remembering the first error.
type header struct {
	in  *Input
	sum uint32
	err error
}

func (h *header) byte() byte {
	if h.err != nil {
		return 0
	}
	b, err := h.in.ReadByte()
	if err != nil {
		h.err = err
		return 0
	}
	h.sum = crc32.Update(h.sum, crc32.IEEETable, []byte{b})
	return b
}

func (g *Gzip) padding() error {
	for {
		b, err := g.in.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return ErrTrailing
		}
	}
}

func (g *Gzip) end() error {
	var tail [8]byte
	if _, err := io.ReadFull(g.in, tail[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if binary.LittleEndian.Uint32(tail[:]) != g.sum || binary.LittleEndian.Uint32(tail[4:]) != g.size {
		return ErrChecksum
	}
	g.begun = false
	return nil
}
