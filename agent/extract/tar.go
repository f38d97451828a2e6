package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const tarBlock = 512

// The types of a tar entry that have one meaning, or none we'd follow.
const (
	tarFile       = '0'
	tarFileOld    = 0
	tarHardlink   = '1'
	tarSymlink    = '2'
	tarChar       = '3'
	tarBlockDev   = '4'
	tarDir        = '5'
	tarFIFO       = '6'
	tarContiguous = '7'
	tarPAX        = 'x'
	tarPAXGlobal  = 'g'
	tarGNUName    = 'L'
	tarGNULink    = 'K'
	tarGNUSparse  = 'S'
	tarGNULabel   = 'V'
)

// tarReader walks the headers of a tar. Where two readers in use would
// understand a header differently, it understands neither and refuses.
type tarReader struct {
	ctx context.Context
	s   *sink
	st  *stream
	raw [tarBlock]byte

	strips stripClashes

	// What extended headers said about the next entry.
	pax     map[string]string
	gnuName *string
	gnuLink *string
}

func readTar(ctx context.Context, s *sink, st *stream) error {
	r := &tarReader{ctx: ctx, s: s, st: st}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := st.fill(r.raw[:])
		if errors.Is(err, io.EOF) || err == nil && zeros(r.raw[:]) {
			return r.end(err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return refuse("", RuleTruncated, "a header is cut short")
		}
		if err != nil {
			return err
		}
		if err := r.entry(); err != nil {
			return err
		}
	}
}

// end takes the end marker, which may be cut short or missing, and what is
// behind it, which must be zeros: some readers would read on.
func (r *tarReader) end(err error) error {
	if r.pax != nil || r.gnuName != nil || r.gnuLink != nil {
		return refuse("", RuleTarConflict, "an extended header with no entry behind it")
	}
	for err == nil {
		var b []byte
		if b, err = r.st.next(chunkSize); !zeros(b) {
			return refuse("", RuleTrailingData, "data follows the end marker")
		}
		if err == nil {
			err = r.ctx.Err()
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (r *tarReader) entry() error {
	t, err := parseTar(&r.raw)
	if err != nil {
		return err
	}
	switch t.kind {
	case tarPAX, tarPAXGlobal, tarGNUName, tarGNULink:
		return r.extended(t)
	}
	h, err := r.resolve(t)
	if err != nil {
		return err
	}
	if err := r.emit(t, h); err != nil {
		return err
	}
	if r.s.outer && (isFile(t.kind) || t.kind == tarHardlink || t.kind == tarSymlink) {
		r.strips.meet(r.s.x, h)
	}
	return nil
}

// resolve joins a header with the extended ones before it.
func (r *tarReader) resolve(t *tarHeader) (*header, error) {
	h := &header{name: t.name, mode: t.mode, size: t.size, target: t.link}
	if r.gnuName != nil {
		h.name = *r.gnuName
	}
	if r.gnuLink != nil {
		h.target = *r.gnuLink
	}
	if r.pax != nil {
		if r.gnuName != nil || r.gnuLink != nil {
			return nil, refuse(h.name, RuleTarConflict, "both PAX and GNU extended headers")
		}
		if err := r.applyPAX(t, h); err != nil {
			return nil, err
		}
	}
	r.pax, r.gnuName, r.gnuLink = nil, nil, nil
	return h, r.contradiction(t, h)
}

// contradiction refuses an entry whose own header is another thing than what
// the extended ones make of it, to a reader that judges by the first.
func (r *tarReader) contradiction(t *tarHeader, h *header) error {
	isLink := t.kind == tarHardlink || t.kind == tarSymlink
	switch {
	case h.name == "" && t.taken():
		return refuse(h.name, RuleNameEmpty, "the entry has no name")
	case t.ownSlash && t.kind == tarFileOld && h.size != 0:
		// Not so a typed file: a long name is cut off wherever it is, and that may be at a slash.
		return refuse(h.name, RuleTypeAmbiguous, "a file whose name in its own header ends in a slash")
	case isLink && t.link == "" && h.target != "":
		return refuse(h.name, RuleTarConflict, "a link whose own header has no target")
	}
	return nil
}

func isFile(kind byte) bool {
	return kind == tarFile || kind == tarFileOld || kind == tarContiguous
}

// emit hands an entry to the sink.
func (r *tarReader) emit(t *tarHeader, h *header) error {
	if isFile(t.kind) && strings.HasSuffix(h.name, "/") {
		// A directory as tar wrote it before there was a type for it.
		if h.size != 0 || t.kind == tarContiguous {
			return refuse(h.name, RuleTypeAmbiguous, "a file whose name ends in a slash")
		}
		return r.s.directory(h)
	}
	if takenWithoutContent(t.kind) && h.size != 0 {
		return refuse(h.name, RuleTarSize, fmt.Sprintf("an entry of type %q that has %d bytes", t.kind, h.size))
	}
	switch t.kind {
	case tarFile, tarFileOld, tarContiguous:
		return r.file(h)
	case tarDir:
		return r.s.directory(h)
	case tarSymlink:
		return r.s.symlink(h, false)
	case tarHardlink:
		return r.s.hardlink(h)
	case tarChar, tarBlockDev, tarFIFO:
		return refuse(h.name, RuleSpecialFile, fmt.Sprintf("an entry of type %q, a device or FIFO", t.kind))
	case tarGNULabel:
		return r.s.skip(h, RuleTarLabel, "a volume label, which is no file")
	case tarGNUSparse:
		return refuse(h.name, RuleTarSparse, "a sparse file")
	}
	return refuse(h.name, RuleTarType, fmt.Sprintf("an entry of type %q", t.kind))
}

// takenWithoutContent is what is taken and can't have content. A type that is
// refused anyway is refused for what it is, whatever its size.
func takenWithoutContent(kind byte) bool {
	return kind == tarDir || kind == tarSymlink || kind == tarHardlink || kind == tarGNULabel
}

func (r *tarReader) file(h *header) error {
	if err := writeFile(r.ctx, r.s, r.st, h); err != nil {
		return err
	}
	if err := r.st.skip(padding(h.size)); err != nil {
		return r.cut(h.name, err)
	}
	return nil
}

func padding(size int64) int64 { return -size & (tarBlock - 1) }

func (r *tarReader) cut(name string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return refuse(name, RuleTruncated, "its padding or content is cut short")
	}
	return within(name, err)
}

// extended reads a header that speaks of another.
func (r *tarReader) extended(t *tarHeader) error {
	if t.size > MetadataCap {
		return refuse(t.name, RuleLimitMetadata, fmt.Sprintf("an extended header has %d bytes, want at most %d", t.size, MetadataCap))
	}
	content := make([]byte, t.size)
	if err := r.st.fill(content); err != nil {
		return r.cut(t.name, err)
	}
	if err := r.st.skip(padding(t.size)); err != nil {
		return r.cut(t.name, err)
	}
	switch t.kind {
	case tarGNUName:
		return r.gnu(&r.gnuName, t, content)
	case tarGNULink:
		return r.gnu(&r.gnuLink, t, content)
	case tarPAXGlobal:
		return r.global(t, content)
	}
	if r.pax != nil {
		return refuse(t.name, RuleTarConflict, "two PAX headers for one entry")
	}
	records, err := parsePAX(t.name, content)
	r.pax = records
	return err
}

// gnu reads a GNU long name, which ends at its NUL.
func (r *tarReader) gnu(to **string, t *tarHeader, content []byte) error {
	if *to != nil {
		return refuse(t.name, RuleTarConflict, "two GNU long names for one entry")
	}
	name, rest, _ := strings.Cut(string(content), "\x00")
	if !zeros([]byte(rest)) {
		return refuse(t.name, RuleNameNUL, "a GNU long name goes on behind its end")
	}
	*to = &name
	return nil
}

// global reads a PAX header for all entries to come. What git writes is a
// comment; one that would rename or resize them is read by few and refused.
func (r *tarReader) global(t *tarHeader, content []byte) error {
	if r.pax != nil || r.gnuName != nil || r.gnuLink != nil {
		return refuse(t.name, RuleTarConflict, "a global header between an extended one and its entry")
	}
	records, err := parsePAX(t.name, content)
	if err != nil {
		return err
	}
	for _, key := range []string{paxPath, paxLink, paxSize} {
		if _, ok := records[key]; ok {
			return refuse(t.name, RuleTarGlobal, "a global header sets "+key)
		}
	}
	name := t.name
	if strings.HasPrefix(name, "/") {
		name = "pax_global_header"
	}
	return r.s.skip(&header{name: name}, RuleTarGlobal, "a global header, which is no file")
}
