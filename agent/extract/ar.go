package extract

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
)

const arHeader = 60

// readAr reads an ar archive of the plain kind that a deb is: names of up to
// 16 bytes in the header itself. A table of long names belongs to object
// libraries.
func readAr(ctx context.Context, s *sink, st *stream) error {
	var magic [len(magicAr)]byte
	if err := st.fill(magic[:]); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var raw [arHeader]byte
		err := st.fill(raw[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return refuse("", RuleTruncated, "a member's header is cut short")
		}
		if err != nil {
			return err
		}
		h, err := parseAr(string(raw[:]))
		if err != nil {
			return err
		}
		if err := writeFile(ctx, s, st, h); err != nil {
			return err
		}
		// The padding of the last member may be missing.
		if h.size%2 == 1 {
			if err := st.skip(1); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return err
			}
		}
	}
}

func parseAr(raw string) (*header, error) {
	name := strings.TrimRight(raw[:16], " ")
	plainName := strings.TrimSuffix(name, "/")
	switch {
	case raw[58:] != "`\n":
		return nil, refuse(name, RuleArHeader, "the header's end is not where it belongs")
	case name == "/" || name == "//" || strings.HasPrefix(name, "#1/") || len(name) > 1 && name[0] == '/':
		return nil, refuse(name, RuleArHeader, "it has a symbol or name table, as object libraries do")
	}
	digits := strings.TrimRight(raw[48:58], " ")
	size, err := strconv.ParseUint(digits, 10, 40)
	if err != nil || digits[0] == '+' {
		return nil, refuse(plainName, RuleArHeader, "the size "+quote(digits)+" is no decimal number")
	}
	mode, err := strconv.ParseUint(strings.TrimRight(raw[40:48], " "), 8, 32)
	if err != nil {
		mode = fileMode
	}
	const typeBits, regular = 0o170000, 0o100000
	if t := mode & typeBits; t != 0 && t != regular {
		return nil, refuse(plainName, RuleSpecialFile, "the mode is that of no ordinary file")
	}
	return &header{name: plainName, mode: int64(mode & 0o7777), size: int64(size)}, nil
}

// writeFile lays out one file of a tar or an ar.
func writeFile(ctx context.Context, s *sink, st *stream, h *header) error {
	p, err := s.file(h)
	if err != nil {
		return err
	}
	claimed := p.name
	fd, err := s.x.tree.create(p)
	if err != nil {
		return err
	}
	if p.name != claimed {
		s.remember(p)
	}
	err = st.copyTo(ctx, fd, p, h.size)
	if closed := closeFile(fd, p); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	s.x.wrote(h.size)
	return nil
}
