package inflate

import (
	"errors"
	"io"
)

// ErrCorrupt is a stream that is not DEFLATE.
var ErrCorrupt = errors.New("malformed deflate stream")

const (
	history = 32 << 10
	// span is how much is decoded between two moves of the history.
	span = 128 << 10
	// room is what one turn of the loop may write: three literals, the longest
	// match, and the rest of its last word.
	room = 3 + 258 + 8
)

type state uint8

const (
	atBlock state = iota
	inStored
	inCodes
	atEnd
)

// Reader decodes one DEFLATE stream. It returns io.EOF behind the last block,
// with its input standing at the byte behind.
type Reader struct {
	in    *Input
	hold  uint64 // bits taken from the input, the next one lowest
	held  uint
	state state
	final bool
	left  int // bytes of a stored block
	err   error

	out  []byte
	w, r int // what is in out: written up to w, read up to r

	lengths   [lengthEntries]uint32
	distances [distanceEntries]uint32
}

// NewReader returns a reader of the stream that in stands at.
func NewReader(in *Input) *Reader {
	d := &Reader{out: make([]byte, history+span+room)}
	d.Reset(in)
	return d
}

// Reset makes d read a new stream.
func (d *Reader) Reset(in *Input) {
	d.in, d.hold, d.held, d.state, d.final, d.left, d.err, d.w, d.r = in, 0, 0, atBlock, false, 0, nil, 0, 0
}

// Read implements io.Reader.
func (d *Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if d.r == d.w {
			if d.err != nil {
				break
			}
			d.decode()
			continue
		}
		got := copy(p[n:], d.out[d.r:d.w])
		d.r += got
		n += got
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, d.err
}

// decode makes more output, or sets d.err.
func (d *Reader) decode() {
	if d.w >= history+span {
		copy(d.out, d.out[d.w-history:d.w])
		d.w = history
		d.r = history
	}
	for d.err == nil && d.w == d.r {
		switch d.state {
		case atBlock:
			d.err = d.block()
		case inStored:
			d.err = d.stored()
		case inCodes:
			d.err = d.codes()
		case atEnd:
			d.giveBack()
			d.err = io.EOF
		}
	}
}

// need holds at least n bits, at most 56.
func (d *Reader) need(n uint) error {
	for d.held < n {
		b, err := d.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		d.hold |= uint64(b) << d.held
		d.held += 8
	}
	return nil
}

func (d *Reader) take(n uint) (uint, error) {
	if err := d.need(n); err != nil {
		return 0, err
	}
	v := uint(d.hold & (1<<n - 1))
	d.hold >>= n
	d.held -= n
	return v, nil
}

// giveBack returns the whole bytes that are held to the input. They are still
// in its buffer: no more are ever held than were taken since it was filled.
func (d *Reader) giveBack() {
	d.in.at -= int(d.held / 8)
	d.hold, d.held = 0, 0
}

func (d *Reader) block() error {
	if d.final {
		d.state = atEnd
		return nil
	}
	v, err := d.take(3)
	if err != nil {
		return err
	}
	d.final = v&1 != 0
	switch v >> 1 {
	case 0:
		return d.beginStored()
	case 1:
		d.state = inCodes
		return d.fixed()
	case 2:
		d.state = inCodes
		return d.dynamic()
	}
	return ErrCorrupt
}

func (d *Reader) beginStored() error {
	if _, err := d.take(d.held % 8); err != nil {
		return err
	}
	n, err := d.take(16)
	if err != nil {
		return err
	}
	inverse, err := d.take(16)
	if err != nil {
		return err
	}
	if n != inverse^0xffff {
		return ErrCorrupt
	}
	d.left, d.state = int(n), inStored
	return nil
}

func (d *Reader) stored() error {
	for d.left > 0 && d.held > 0 && d.w < history+span {
		b, err := d.take(8)
		if err != nil {
			return err
		}
		d.out[d.w] = byte(b)
		d.w++
		d.left--
	}
	if d.left == 0 {
		d.state = atBlock
		return nil
	}
	n, err := d.in.Read(d.out[d.w:min(d.w+d.left, history+span)])
	d.w += n
	d.left -= n
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *Reader) fixed() error {
	var l [288 + 32]uint8
	for i := range l {
		switch {
		case i < 144 || i >= 280 && i < 288:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 5
		}
	}
	build(d.lengths[:], lengthBits, l[:288], false, lengthEntry)
	build(d.distances[:], distanceBits, l[288:], false, distanceEntry)
	return nil
}

var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

func (d *Reader) dynamic() error {
	v, err := d.take(14)
	if err != nil {
		return err
	}
	literals, distances, codes := int(v&31)+257, int(v>>5&31)+1, int(v>>10)+4
	if literals > 286 || distances > 30 {
		return ErrCorrupt
	}
	var l [286 + 30]uint8
	var c [19]uint8
	for i := range codes {
		v, err := d.take(3)
		if err != nil {
			return err
		}
		c[codeOrder[i]] = uint8(v)
	}
	const codeBits = 7
	var table [1 << codeBits]uint32
	if !build(table[:], codeBits, c[:], false, codeEntry) {
		return ErrCorrupt
	}
	for i := 0; i < literals+distances; {
		_ = d.need(codeBits) // the last code may be shorter than that
		e := table[d.hold&(1<<codeBits-1)]
		if e&isSpecial != 0 {
			return ErrCorrupt
		}
		if _, err := d.take(uint(e & 0xff)); err != nil {
			return err
		}
		value, repeat := uint8(e>>valueShift), 1
		if value > 15 {
			if value, repeat, err = d.repeat(value, l[:i]); err != nil {
				return err
			}
		}
		if repeat > literals+distances-i {
			return ErrCorrupt
		}
		for range repeat {
			l[i] = value
			i++
		}
	}
	if l[256] == 0 ||
		!build(d.lengths[:], lengthBits, l[:literals], true, lengthEntry) ||
		!build(d.distances[:], distanceBits, l[literals:literals+distances], true, distanceEntry) {
		return ErrCorrupt
	}
	return nil
}

func (d *Reader) repeat(symbol uint8, before []uint8) (value uint8, times int, err error) {
	var bits uint
	switch symbol {
	case 16:
		if len(before) == 0 {
			return 0, 0, ErrCorrupt
		}
		value, times, bits = before[len(before)-1], 3, 2
	case 17:
		times, bits = 3, 3
	default:
		times, bits = 11, 7
	}
	v, err := d.take(bits)
	return value, times + int(v), err
}

// codes decodes a block until it ends or the output is full.
func (d *Reader) codes() error {
	for {
		in := d.in
		if in.n-in.at < reserve && in.err == nil {
			// Whole bytes that are held stay behind; they are in hold.
			in.more()
		}
		if in.err != nil && !errors.Is(in.err, io.EOF) {
			return in.err
		}
		ended, err := d.turns()
		if err != nil {
			// Bits that are missing read as zeros and may be no code.
			if left := int(d.held) - 8*(in.at-in.n); errors.Is(in.err, io.EOF) && left < longest+5+longest+13 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if in.at-int(d.held/8) > in.n {
			return io.ErrUnexpectedEOF
		}
		if ended {
			d.state = atBlock
			// Bits behind the input's end are no bits.
			if over := in.at - in.n; over > 0 {
				d.held -= uint(over) * 8
				in.at = in.n
				d.hold &= 1<<d.held - 1
			}
			return nil
		}
		if d.w > len(d.out)-room {
			return nil
		}
		if errors.Is(in.err, io.EOF) && in.at > in.n+8 {
			return io.ErrUnexpectedEOF
		}
	}
}
