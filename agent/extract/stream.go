package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/batleforc/batlehub-sandbox/agent/extract/internal/inflate"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The bounds of what one extraction holds in memory, in bytes.
const (
	chunkSize  = 256 << 10
	ringChunks = 8
	readSize   = 64 << 10
	// WindowCap is the largest dictionary or window of xz and zstd: that of
	// `xz -9`, and more than any package here was seen to need.
	WindowCap = 64 << 20
	// MetadataCap bounds one extended header of a tar.
	MetadataCap = 1 << 20
)

// file reads an archive's bytes by position, so that where the caller's
// descriptor stands does not matter, and remembers a fault of the medium,
// which is no answer about the artifact.
type file struct {
	ctx  context.Context
	f    *os.File
	size int64
	pos  int64
	err  error
}

func newFile(ctx context.Context, f *os.File) (*file, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", quote(f.Name()))
	}
	return &file{ctx: ctx, f: f, size: info.Size()}, nil
}

// Read implements io.Reader. It also is where a decoder that takes in much and
// gives out nothing notices that the run was cancelled.
func (r *file) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		r.err = err
		return 0, err
	}
	n, err := r.f.ReadAt(p, r.pos)
	r.pos += int64(n)
	if n > 0 {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		r.err = err
	}
	return 0, err
}

// head returns the first bytes, at most n.
func (r *file) head(n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := r.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// ring is the buffers that a stream's two ends pass to each other. It is kept
// from archive to archive.
type ring struct {
	chunks [][]byte
}

func (r *ring) take(i int) []byte {
	if i == len(r.chunks) {
		r.chunks = append(r.chunks, make([]byte, chunkSize))
	}
	return r.chunks[i]
}

type chunk struct {
	buf []byte // whole, to be given back
	n   int
	err error // what came after the n bytes
}

// stream is an archive's bytes after decompression. One goroutine decodes
// ahead into a few buffers while the caller writes from them: the two take
// about as long as each other.
type stream struct {
	filled chan chunk
	free   chan []byte
	stop   chan struct{}
	done   chan struct{}

	cur  []byte
	last chunk
	fed  int64
}

// growth bounds what a decoder may give out.
type growth struct {
	x     *Extractor
	src   *file
	plain bool // not compressed
	out   int64
}

// take accounts for n more bytes.
func (g *growth) take(n int) error {
	g.out += int64(n)
	g.x.streamed += int64(n)
	p := g.x.policy
	if most := p.MaxBytes + 2048*p.MaxEntries + readSize; g.x.streamed > most {
		return refuse("", RuleLimitStream, fmt.Sprintf("more than %d bytes of entries, headers and padding", most))
	}
	if !g.plain && ratioPassed(p, g.src.size, g.out) {
		return refuse("", RuleLimitRatio, fmt.Sprintf("%d bytes became %d and more, want at most %d times as many", g.src.size, g.out, p.MaxRatio))
	}
	return nil
}

// ratioPassed reports whether out bytes are too many to come out of an input
// of in bytes, which is the whole of it and not what was read so far: else a
// file of zeros would be a bomb before a file of noise, and none behind it.
func ratioPassed(p wire.ExtractPolicy, in, out int64) bool {
	return out > wire.RatioFloor && (out-1)/p.MaxRatio >= in
}

// newStream starts decoding. close must be called before src is used again.
func newStream(x *Extractor, decoder io.Reader, g *growth) *stream {
	s := &stream{
		filled: make(chan chunk, ringChunks), free: make(chan []byte, ringChunks),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.decode(x, decoder, g)
	return s
}

func (s *stream) decode(x *Extractor, decoder io.Reader, g *growth) {
	defer close(s.done)
	for taken := 0; ; {
		var buf []byte
		select {
		case buf = <-s.free:
		default:
			if taken < ringChunks {
				buf = x.ring.take(taken)
				taken++
				break
			}
			select {
			case buf = <-s.free:
			case <-s.stop:
				return
			}
		}
		n, err := readFull(decoder, buf)
		if g.src.err != nil {
			err = g.src.err
		} else if err != nil && !errors.Is(err, io.EOF) {
			err = corrupt(err)
		}
		if over := g.take(n); over != nil {
			n, err = 0, over
		}
		select {
		case s.filled <- chunk{buf, n, err}:
		case <-s.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// readFull fills buf unless something ends it first. Unlike io.ReadFull it
// keeps the decoder's own word for what that was: the end, or a truncation.
func readFull(r io.Reader, buf []byte) (int, error) {
	n := 0
	for idle := 0; n < len(buf) && idle < 100; idle++ {
		got, err := r.Read(buf[n:])
		if n += got; err != nil {
			return n, err
		}
		if got > 0 {
			idle = 0
		}
	}
	if n < len(buf) {
		return n, io.ErrNoProgress
	}
	return n, nil
}

// close ends the decoding and waits for it.
func (s *stream) close() {
	close(s.stop)
	<-s.done
}

// more makes s.cur non-empty, or says why it can't be.
func (s *stream) more() error {
	for len(s.cur) == 0 {
		if s.last.err != nil {
			return s.last.err
		}
		if s.last.buf != nil {
			s.free <- s.last.buf
		}
		s.last = <-s.filled
		s.cur = s.last.buf[:s.last.n]
	}
	return nil
}

// peek returns what is there of the next n bytes without taking it. It is for
// the beginning of a stream, where no chunk has been used up.
func (s *stream) peek(n int) ([]byte, error) {
	if err := s.more(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s.cur[:min(n, len(s.cur))], nil
}

// next returns up to n bytes, valid until the following call.
func (s *stream) next(n int64) ([]byte, error) {
	if err := s.more(); err != nil {
		return nil, err
	}
	b := s.cur[:min(n, int64(len(s.cur)))]
	s.cur = s.cur[len(b):]
	s.fed += int64(len(b))
	return b, nil
}

// fill reads exactly len(p) bytes. It returns io.EOF if there is none, and
// io.ErrUnexpectedEOF if there are some.
func (s *stream) fill(p []byte) error {
	for got := 0; got < len(p); {
		b, err := s.next(int64(len(p) - got))
		if errors.Is(err, io.EOF) && got > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		got += copy(p[got:], b)
	}
	return nil
}

// copyTo writes the next size bytes to a file.
func (s *stream) copyTo(ctx context.Context, fd int, p *place, size int64) error {
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := s.next(size)
		if errors.Is(err, io.EOF) {
			return refuse(p.entry, RuleTruncated, fmt.Sprintf("%d bytes of its content are missing", size))
		}
		if err != nil {
			return within(p.entry, err)
		}
		if err := writeAll(fd, p, b); err != nil {
			return err
		}
		size -= int64(len(b))
	}
	return nil
}

// skip passes over padding.
func (s *stream) skip(n int64) error {
	for n > 0 {
		b, err := s.next(n)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n -= int64(len(b))
	}
	return nil
}

// corrupt makes a decoder's complaint an answer about the artifact.
func corrupt(err error) error {
	var refusal *RefusalError
	switch {
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("", RuleTruncated, "the compressed stream ends early")
	case errors.Is(err, inflate.ErrTrailing):
		return refuse("", RuleTrailingData, err.Error())
	case isChecksum(err):
		return refuse("", RuleChecksum, err.Error())
	case isWindow(err):
		return refuse("", RuleLimitWindow, err.Error())
	}
	return refuse("", RuleCorrupt, err.Error())
}

// within names the entry in which a refusal of the whole stream came up.
func within(entry string, err error) error {
	var refusal *RefusalError
	if errors.As(err, &refusal) && refusal.Entry == "" {
		refusal.Entry = quote(entry)
	}
	return err
}
