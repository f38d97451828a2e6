package extract

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

var (
	errXZ       = errors.New("malformed xz")
	errXZCheck  = errors.New("xz: wrong checksum")
	errXZWindow = errors.New("xz: the dictionary is larger than the cap")
)

func foreignFilter() error {
	return refuse("", RuleUnsupportedMethod, "an xz filter other than LZMA2")
}

// xzReader reads the xz container itself and leaves LZMA2 to the library,
// whose own container reader allocates whatever dictionary a block asks for.
type xzReader struct {
	in    *xzCounter
	check byte
	sum   hash.Hash
	block io.Reader // nil between blocks

	begun   bool // a stream's header was read
	wanted  xzBlock
	start   int64
	size    int64
	records []xzRecord
}

type xzCounter struct {
	*bufio.Reader
	n int64
}

// Read implements io.Reader.
func (c *xzCounter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (c *xzCounter) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func (c *xzCounter) full(p []byte) error {
	_, err := io.ReadFull(c, p)
	return notEOF(err)
}

// xzBlock is what a block's header promises; -1 is nothing.
type xzBlock struct {
	compressed, size int64
	header           int64
}

type xzRecord struct{ unpadded, size int64 }

func newXZ(in *bufio.Reader) io.Reader { return &xzReader{in: &xzCounter{Reader: in}} }

// Read implements io.Reader over all streams of the input.
func (x *xzReader) Read(p []byte) (int, error) {
	for {
		if x.block == nil {
			if err := x.nextBlock(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := x.block.Read(p)
		x.size += int64(n)
		_, _ = x.sum.Write(p[:n])
		if errors.Is(err, io.EOF) {
			if err := x.endBlock(); err != nil {
				return 0, err
			}
			x.block, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// nextBlock begins a block, or returns io.EOF behind the last stream.
func (x *xzReader) nextBlock() error {
	if !x.begun {
		if err := x.beginStream(); err != nil {
			return err
		}
	}
	first, err := x.in.ReadByte()
	if err != nil {
		return notEOF(err)
	}
	if first == 0 {
		x.begun = false
		return x.index()
	}
	raw := make([]byte, (int(first)+1)*4)
	raw[0] = first
	if err := x.in.full(raw[1:]); err != nil {
		return err
	}
	dict, err := x.parseBlock(raw)
	if err != nil {
		return err
	}
	if x.wanted.size >= 0 {
		// A block needs no more dictionary than it has content.
		dict = int(min(int64(dict), max(x.wanted.size, lzma.MinDictCap)))
	}
	x.start, x.size = x.in.n, 0
	x.sum.Reset()
	x.block, err = lzma.Reader2Config{DictCap: dict}.NewReader2(x.in)
	return err
}

func (x *xzReader) beginStream() error {
	var h [12]byte
	first := x.records == nil
	// Streams may be followed by padding of four zeros at a time.
	for {
		if _, err := io.ReadFull(x.in, h[:4]); err != nil {
			return err
		}
		if first || !zeros(h[:4]) {
			break
		}
	}
	if err := x.in.full(h[4:]); err != nil {
		return err
	}
	if string(h[:6]) != magicXZ {
		if first {
			return errXZ
		}
		return refuse("", RuleTrailingData, "data follows the last xz stream")
	}
	if h[6] != 0 || h[7]&0xf0 != 0 {
		return errXZ
	}
	if crc32.ChecksumIEEE(h[6:8]) != binary.LittleEndian.Uint32(h[8:]) {
		return errXZCheck
	}
	x.begun, x.check, x.records = true, h[7], make([]xzRecord, 0, 4)
	switch x.check {
	case 0:
		x.sum = noHash{}
	case 1:
		x.sum = crc32.NewIEEE()
	case 4:
		x.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		x.sum = sha256.New()
	default:
		return errXZ
	}
	return nil
}

// parseBlock reads a block's header and returns its dictionary's size.
func (x *xzReader) parseBlock(raw []byte) (dict int, err error) {
	body, sum := raw[:len(raw)-4], raw[len(raw)-4:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return 0, errXZCheck
	}
	flags := body[1]
	r := bytes.NewReader(body[2:])
	x.wanted = xzBlock{-1, -1, int64(len(raw))}
	if flags&0x3c != 0 {
		return 0, errXZ
	}
	if flags&0x03 != 0 {
		return 0, foreignFilter()
	}
	if flags&0x40 != 0 {
		if x.wanted.compressed, err = number(r); err != nil {
			return 0, err
		}
	}
	if flags&0x80 != 0 {
		if x.wanted.size, err = number(r); err != nil {
			return 0, err
		}
	}
	id, err := number(r)
	if err != nil {
		return 0, err
	}
	if id != 0x21 {
		return 0, foreignFilter()
	}
	length, err := number(r)
	if err != nil || length != 1 {
		return 0, errXZ
	}
	code, _ := r.ReadByte()
	rest, _ := io.ReadAll(r)
	if !zeros(rest) {
		return 0, errXZ
	}
	return dictionary(code)
}

func dictionary(code byte) (int, error) {
	if code > 40 {
		return 0, errXZ
	}
	size := (int64(2) | int64(code&1)) << (code/2 + 11)
	if size > WindowCap {
		return 0, errXZWindow
	}
	return int(size), nil
}

// number reads xz's own variable-length integer.
func number(r io.ByteReader) (int64, error) {
	var v int64
	for shift := 0; shift < 63; shift += 7 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, notEOF(err)
		}
		if b == 0 && shift > 0 {
			return 0, errXZ
		}
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v, nil
		}
	}
	return 0, errXZ
}

func (x *xzReader) endBlock() error {
	compressed := x.in.n - x.start
	if x.wanted.compressed >= 0 && x.wanted.compressed != compressed || x.wanted.size >= 0 && x.wanted.size != x.size {
		return errXZ
	}
	rest := make([]byte, (4-compressed%4)%4+int64(x.sum.Size()))
	if err := x.in.full(rest); err != nil {
		return err
	}
	padding := len(rest) - x.sum.Size()
	if !zeros(rest[:padding]) {
		return errXZ
	}
	want := x.sum.Sum(nil)
	if x.check == 1 || x.check == 4 {
		// The two CRCs are stored little-endian, unlike Go's sums.
		for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
			want[i], want[j] = want[j], want[i]
		}
	}
	if !bytes.Equal(rest[padding:], want) {
		return errXZCheck
	}
	if len(x.records) >= 1<<20 {
		return errXZ
	}
	x.records = append(x.records, xzRecord{x.wanted.header + compressed + int64(x.sum.Size()), x.size})
	return nil
}

// index compares the index with the blocks that were read, and the footer
// with the index.
func (x *xzReader) index() error {
	sum := crc32.NewIEEE()
	_, _ = sum.Write([]byte{0})
	r := &xzTee{x.in, sum, 1}
	count, err := number(r)
	if err != nil {
		return err
	}
	if count != int64(len(x.records)) {
		return errXZ
	}
	for _, want := range x.records {
		unpadded, err := number(r)
		if err != nil {
			return err
		}
		size, err := number(r)
		if err != nil {
			return err
		}
		if (xzRecord{unpadded, size}) != want {
			return errXZ
		}
	}
	for r.n%4 != 0 {
		if b, err := r.ReadByte(); err != nil || b != 0 {
			return errXZ
		}
	}
	var tail [4 + 12]byte
	if err := x.in.full(tail[:]); err != nil {
		return err
	}
	footer := tail[4:]
	switch {
	case binary.LittleEndian.Uint32(tail[:]) != sum.Sum32(),
		binary.LittleEndian.Uint32(footer) != crc32.ChecksumIEEE(footer[4:10]):
		return errXZCheck
	case (int64(binary.LittleEndian.Uint32(footer[4:]))+1)*4 != r.n+4, footer[8] != 0, footer[9] != x.check, string(footer[10:]) != "YZ":
		return errXZ
	}
	return nil
}

// xzTee sums and counts the bytes it passes on.
type xzTee struct {
	r   io.ByteReader
	sum hash.Hash32
	n   int64
}

// ReadByte implements io.ByteReader.
func (t *xzTee) ReadByte() (byte, error) {
	b, err := t.r.ReadByte()
	if err == nil {
		_, _ = t.sum.Write([]byte{b})
		t.n++
	}
	return b, err
}

// noHash stands for the check of a stream that has none.
type noHash struct{ hash.Hash }

func (noHash) Write(p []byte) (int, error) { return len(p), nil }
func (noHash) Sum(b []byte) []byte         { return b }
func (noHash) Reset()                      {}
func (noHash) Size() int                   { return 0 }
