package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/batleforc/batlehub-sandbox/agent/extract/internal/inflate"
)

// Members up to these sizes are read with one call, checked in memory and
// written with one call. Larger ones pass through buffers of their own.
const (
	smallSpan = 256 << 10
	smallSize = 1 << 20
)

// inflater has the buffers and the decoder of one worker.
type inflater struct {
	in    []byte
	out   []byte
	bytes bytes.Reader
	src   *inflate.Input
	flate *inflate.Reader
}

func newInflater() *inflater {
	src := inflate.NewInput(nil)
	return &inflater{src: src, flate: inflate.NewReader(src)}
}

func grow(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n, (n+n/2+4095)&^4095)
	}
	return b[:n]
}

// member returns the checked content of a small member, valid until the next
// call.
func (f *inflater) member(src *file, m *zipMember) ([]byte, error) {
	if m.span > smallSpan || m.size > smallSize {
		return nil, refuse(m.name, RuleZipGap, fmt.Sprintf("%d bytes around a member of %d", m.span, m.size))
	}
	f.in = grow(f.in, m.span)
	if _, err := src.f.ReadAt(f.in, m.offset); err != nil && (!errors.Is(err, io.EOF) || m.span > src.size-m.offset) {
		return nil, err
	}
	start, err := m.checkLocal(f.in)
	if err != nil {
		return nil, err
	}
	data, rest := f.in[start:start+m.compressed], f.in[start+m.compressed:]
	if err := m.checkDescriptor(rest); err != nil {
		return nil, err
	}
	if m.method == zipDeflated {
		if data, err = f.inflate(m, data); err != nil {
			return nil, err
		}
	}
	if crc32.ChecksumIEEE(data) != m.crc {
		return nil, refuse(m.name, RuleChecksum, "the content's checksum is not the stored one")
	}
	return data, nil
}

// inflate makes room for one byte more than declared, so that a longer member
// shows itself.
func (f *inflater) inflate(m *zipMember, data []byte) ([]byte, error) {
	f.out = grow(f.out, m.size+1)
	f.bytes.Reset(data)
	f.src.Reset(&f.bytes)
	f.flate.Reset(f.src)
	n, err := readFull(f.flate, f.out)
	if err := m.judge(int64(n), err, m.compressed-f.src.Taken()); err != nil {
		return nil, err
	}
	return f.out[:m.size], nil
}

// judge compares what came of a member with what was declared: out bytes, the
// decoder's last word, and how much of the input it left.
func (m *zipMember) judge(out int64, err error, left int64) error {
	switch {
	case out > m.size:
		return refuse(m.name, RuleZipSize, fmt.Sprintf("more than the declared %d bytes", m.size))
	case err == nil || errors.Is(err, io.EOF):
		if out < m.size {
			return refuse(m.name, RuleZipSize, fmt.Sprintf("%d bytes, %d declared", out, m.size))
		}
		if left > 0 {
			return refuse(m.name, RuleTrailingData, fmt.Sprintf("%d bytes follow the compressed content", left))
		}
		return nil
	}
	return within(m.name, corrupt(err))
}

// stream passes the content of a large member to write, and checks it along
// the way: never more than declared, and the checksum at the end.
func (f *inflater) stream(ctx context.Context, src *file, m *zipMember, write func([]byte) error) error {
	start, err := m.frame(src)
	if err != nil {
		return err
	}
	in := &file{ctx: ctx, f: src.f, size: src.size, pos: m.offset + start}
	f.src.Reset(io.LimitReader(in, m.compressed))
	var content io.Reader = f.src
	if m.method == zipDeflated {
		f.flate.Reset(f.src)
		content = f.flate
	}
	f.out = grow(f.out, chunkSize)
	var out int64
	var sum uint32
	for err == nil {
		var n int
		n, err = readFull(content, f.out)
		if out += int64(n); out > m.size {
			break
		}
		sum = crc32.Update(sum, crc32.IEEETable, f.out[:n])
		if failed := write(f.out[:n]); failed != nil {
			return failed
		}
	}
	if in.err != nil {
		return in.err
	}
	if err := m.judge(out, err, m.compressed-f.src.Taken()); err != nil {
		return err
	}
	if sum != m.crc {
		return refuse(m.name, RuleChecksum, "the content's checksum is not the stored one")
	}
	return nil
}

// frame checks what is around a large member's content and returns where that
// begins within its span.
func (m *zipMember) frame(src *file) (int64, error) {
	head := make([]byte, min(m.span-m.compressed, zipLocalSize+2*zipCommentMost))
	if _, err := src.f.ReadAt(head, m.offset); err != nil {
		return 0, err
	}
	start, err := m.checkLocal(head)
	if err != nil {
		return 0, err
	}
	left := m.span - start - m.compressed
	if left > descriptorMost {
		return 0, m.gap(left)
	}
	rest := make([]byte, left)
	if left > 0 {
		if _, err := src.f.ReadAt(rest, m.offset+start+m.compressed); err != nil {
			return 0, err
		}
	}
	return start, m.checkDescriptor(rest)
}

// checkLocal compares the header before a member's content with the central
// directory and returns how long it is. head holds at least all of the span
// that is not content.
func (m *zipMember) checkLocal(head []byte) (int64, error) {
	mismatch := func(what string) (int64, error) {
		return 0, refuse(m.name, RuleZipMismatch, what+" differs between the local header and the central directory")
	}
	if len(head) < zipLocalSize || string(head[:4]) != magicZip {
		return 0, refuse(m.name, RuleZipMismatch, "there is no local header where the central directory has it")
	}
	nameEnd := zipLocalSize + int64(le.Uint16(head[26:]))
	start := nameEnd + int64(le.Uint16(head[28:]))
	if start+m.compressed > m.span || start > int64(len(head)) {
		return 0, refuse(m.name, RuleZipOverlap, "its bytes run into what follows")
	}
	if string(head[zipLocalSize:nameEnd]) != m.name {
		return mismatch("the name " + quote(string(head[zipLocalSize:nameEnd])))
	}
	flags := le.Uint16(head[6:])
	switch {
	case le.Uint16(head[8:]) != m.method:
		return mismatch("the compression method")
	case (flags^m.flags)&zipFlagsCompare != 0:
		return mismatch("a flag")
	}
	compressed, size := int64(le.Uint32(head[18:])), int64(le.Uint32(head[22:]))
	if err := m.extras(head[nameEnd:start], &size, &compressed); err != nil {
		return 0, err
	}
	crc := le.Uint32(head[14:])
	// Where a descriptor follows, what was not known yet is zero.
	told := func(local, central int64) bool {
		return local == central || local == 0 && flags&zipDescriptor != 0
	}
	switch {
	case !told(int64(crc), int64(m.crc)):
		return mismatch("the checksum")
	case !told(size, m.size):
		return mismatch("the size")
	case !told(compressed, m.compressed):
		return mismatch("the compressed size")
	}
	return start, nil
}

// descriptorMost is the length of the longest data descriptor: a signature,
// a checksum and two sizes of 64 bits.
const descriptorMost = 24

// checkDescriptor judges what is between a member's content and whatever
// follows: a data descriptor in one of its four forms, or nothing.
func (m *zipMember) checkDescriptor(rest []byte) error {
	if m.flags&zipDescriptor == 0 {
		if len(rest) > 0 {
			return m.gap(int64(len(rest)))
		}
		return nil
	}
	body := rest
	if len(rest) == 16 || len(rest) == 24 {
		if string(rest[:4]) != magicZipDescribe {
			return m.gap(int64(len(rest)))
		}
		body = rest[4:]
	}
	var compressed, size uint64
	switch len(body) {
	case 12:
		compressed, size = uint64(le.Uint32(body[4:])), uint64(le.Uint32(body[8:]))
	case 20:
		compressed, size = le.Uint64(body[4:]), le.Uint64(body[12:])
	default:
		return m.gap(int64(len(rest)))
	}
	if le.Uint32(body) != m.crc || compressed != uint64(m.compressed) || size != uint64(m.size) {
		return refuse(m.name, RuleZipMismatch, "the data descriptor differs from the central directory")
	}
	return nil
}

func (m *zipMember) gap(n int64) error {
	return refuse(m.name, RuleZipGap, fmt.Sprintf("%d bytes between it and what follows", n))
}
