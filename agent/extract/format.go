package extract

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/batleforc/batlehub-sandbox/agent/extract/internal/inflate"
)

const (
	magicZip     = "PK\x03\x04"
	magicZipEnd  = "PK\x05\x06"
	magicZipSpan = "PK\x07\x08"
	magicGzip    = "\x1f\x8b"
	magicBzip2   = "BZh"
	magicXZ      = "\xfd7zXZ\x00"
	magicZstd    = "\x28\xb5\x2f\xfd"
	magicAr      = "!<arch>\n"
)

// unsupported are formats that are recognised so that the refusal can say so.
var unsupported = []struct{ magic, name string }{
	{"7z\xbc\xaf\x27\x1c", "7z"},
	{"Rar!\x1a\x07", "rar"},
	{"MSCF", "cab"},
	{"xar!", "xar"},
	{"\xed\xab\xee\xdb", "rpm"},
	{"070701", "cpio"},
	{"070702", "cpio"},
	{"070707", "cpio"},
	{"\xc7\x71", "cpio"},
	{"\x71\xc7", "cpio"},
	{magicZipSpan, "a zip split over several files"},
	{"\x04\x22\x4d\x18", "lz4"},
	{"LZIP", "lzip"},
	{"\x5d\x00\x00", "lzma"},
	{"\x1f\x9d", "compress"},
}

// readArchive tells the format by content and hands its entries to s.
func readArchive(ctx context.Context, s *sink, f *os.File) error {
	src, err := newFile(ctx, f)
	if err != nil {
		return err
	}
	if src.size == 0 {
		return refuse("", RuleEmpty, "the input has no bytes")
	}
	head, err := src.head(tarBlock)
	if err != nil {
		return err
	}
	magic := string(head)
	isTar := len(head) == tarBlock && tarChecksum((*[tarBlock]byte)(head))
	if has(magic, magicZip) || has(magic, magicZipEnd) {
		if isTar {
			return refuse("", RulePolyglot, "it begins both a zip and a tar")
		}
		return readZip(ctx, s, src)
	}
	if hidden, err := hidesZip(src); err != nil || hidden {
		if err == nil && !isTar && !compressed(magic) && !has(magic, magicAr) {
			return refuse("", RuleZipPrefix, "there is data before the first member")
		}
		return errors.Join(err, refuse("", RulePolyglot, "the end of a zip follows another format"))
	}
	if isTar || has(magic, magicAr) || compressed(magic) || zeros(head) && len(head) == tarBlock {
		return readStream(ctx, s, src, magic)
	}
	for _, u := range unsupported {
		if has(magic, u.magic) {
			return refuse("", RuleUnsupportedFormat, "it is "+u.name)
		}
	}
	return refuse("", RuleUnknownFormat, "the first bytes are those of no archive")
}

func has(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

func compressed(magic string) bool {
	return has(magic, magicGzip) || has(magic, magicBzip2) || has(magic, magicXZ) || has(magic, magicZstd) || skippable(magic)
}

// skippable reports a zstd skippable frame, which may come before the first
// real one.
func skippable(magic string) bool {
	return len(magic) >= 4 && magic[0]&0xf0 == 0x50 && magic[1:4] == "\x2a\x4d\x18"
}

func zeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// readStream reads a tar, compressed or not, or an ar.
func readStream(ctx context.Context, s *sink, src *file, magic string) error {
	decoder, err := newDecoder(src, magic)
	if src.err != nil {
		return src.err
	}
	if err != nil {
		return corrupt(err)
	}
	if c, ok := decoder.(io.Closer); ok {
		defer c.Close()
	}
	g := &growth{x: s.x, src: src, plain: !compressed(magic)}
	st := newStream(s.x, decoder, g)
	defer st.close()
	head, err := st.peek(tarBlock)
	if err != nil {
		return err
	}
	if len(head) < tarBlock && st.last.err != nil && !errors.Is(st.last.err, io.EOF) {
		return st.last.err
	}
	switch {
	case g.plain && has(magic, magicAr):
		return readAr(ctx, s, st)
	case len(head) == tarBlock && (zeros(head) || tarChecksum((*[tarBlock]byte)(head))):
		return readTar(ctx, s, st)
	}
	return refuse("", RuleUnknownFormat, "the compressed stream holds no tar")
}

// newDecoder returns a decoder of src.
func newDecoder(src *file, magic string) (io.Reader, error) {
	if has(magic, magicGzip) {
		return inflate.NewGzip(inflate.NewInput(src)), nil
	}
	in := bufio.NewReaderSize(src, readSize)
	switch {
	case has(magic, magicBzip2):
		return bzip2.NewReader(in), nil
	case has(magic, magicXZ):
		return newXZ(in), nil
	case has(magic, magicZstd) || skippable(magic):
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(WindowCap))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return in, nil
}

// notEOF is for a header that ends early: the input had begun.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func isChecksum(err error) bool {
	return errors.Is(err, inflate.ErrChecksum) || errors.Is(err, zstd.ErrCRCMismatch) || errors.Is(err, errXZCheck) ||
		err.Error() == "bzip2 data invalid: checksum mismatch" || err.Error() == "bzip2 data invalid: file checksum mismatch" ||
		err.Error() == "bzip2 data invalid: block checksum mismatch"
}

func isWindow(err error) bool {
	return errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, errXZWindow)
}
