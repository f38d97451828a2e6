package inflate

import (
	"encoding/binary"
	"errors"
	"io"
)

// turns is the loop. It ends with the block, or when one more turn could pass
// the end of input or output.
func (d *Reader) turns() (ended bool, err error) {
	in, at, hold, held := d.in.buf, d.in.at, d.hold, d.held
	out, w := d.out, d.w
	inMost, outMost := d.in.n-reserve, len(out)-room
	if errors.Is(d.in.err, io.EOF) {
		inMost = d.in.n + 8
	}
	lengths, distances := &d.lengths, &d.distances
	for at <= inMost && w <= outMost {
		hold |= binary.LittleEndian.Uint64(in[at:]) << (held & 63)
		at += int((63 - held) >> 3)
		held |= 56
		e := lengths[hold&(1<<lengthBits-1)]
		if e&isLiteral != 0 {
			hold >>= e & 63
			held -= uint(e & 0xff)
			out[w] = byte(e >> valueShift)
			w++
			e = lengths[hold&(1<<lengthBits-1)]
			if e&isLiteral != 0 {
				hold >>= e & 63
				held -= uint(e & 0xff)
				out[w] = byte(e >> valueShift)
				w++
				e = lengths[hold&(1<<lengthBits-1)]
				if e&isLiteral != 0 {
					hold >>= e & 63
					held -= uint(e & 0xff)
					out[w] = byte(e >> valueShift)
					w++
					continue
				}
			}
			hold |= binary.LittleEndian.Uint64(in[at:]) << (held & 63)
			at += int((63 - held) >> 3)
			held |= 56
		}
		if e&isSpecial != 0 {
			if e&isPointer != 0 {
				hold >>= lengthBits
				held -= lengthBits
				e = lengths[uint64(e>>valueShift)+hold&(1<<(longest-lengthBits)-1)]
				if e&isLiteral != 0 {
					hold >>= e & 63
					held -= uint(e & 0xff)
					out[w] = byte(e >> valueShift)
					w++
					continue
				}
			}
			if e&isSpecial != 0 {
				if e&isEnd == 0 {
					err = ErrCorrupt
				}
				hold >>= e & 63
				held -= uint(e & 0xff)
				ended = true
				break
			}
		}
		length := int(e>>valueShift) + int(hold&(1<<(e&63)-1)>>(e>>codeShift&codeMask))
		hold >>= e & 63
		held -= uint(e & 0xff)

		e = distances[hold&(1<<distanceBits-1)]
		if e&isSpecial != 0 {
			if e&isPointer != 0 {
				hold >>= distanceBits
				held -= distanceBits
				e = distances[uint64(e>>valueShift)+hold&(1<<(longest-distanceBits)-1)]
			}
			if e&isSpecial != 0 {
				err = ErrCorrupt
				break
			}
		}
		distance := int(e>>valueShift) + int(hold&(1<<(e&63)-1)>>(e>>codeShift&codeMask))
		hold >>= e & 63
		held -= uint(e & 0xff)
		if distance > w {
			err = ErrCorrupt
			break
		}
		w = match(out, w, distance, length)
	}
	d.in.at, d.hold, d.held, d.w = at, hold&(1<<(held&63)-1), held, w
	return ended, err
}

// match copies length bytes from distance bytes back, and may write up to
// seven more behind.
func match(out []byte, w, distance, length int) int {
	end := w + length
	from := w - distance
	switch {
	case distance >= 8:
		for w < end {
			binary.LittleEndian.PutUint64(out[w:], binary.LittleEndian.Uint64(out[from:]))
			w += 8
			from += 8
		}
	case distance == 1:
		word := uint64(out[from]) * 0x0101010101010101
		for w < end {
			binary.LittleEndian.PutUint64(out[w:], word)
			w += 8
		}
	default:
		for w < end {
			out[w] = out[from]
			w++
			from++
		}
	}
	return end
}
