package extract

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// The fields of a tar header block.
var (
	tarNameField     = field{0, 100}
	tarModeField     = field{100, 108}
	tarSizeField     = field{124, 136}
	tarChecksumField = field{148, 156}
	tarLinkField     = field{157, 257}
	tarFormatField   = field{257, 265}
	tarPrefixField   = field{345, 500}
	tarTrailerField  = field{508, 512}
)

const tarTypeAt = 156

type field struct{ from, to int }

func (f field) of(raw *[tarBlock]byte) []byte { return raw[f.from:f.to] }

// text is a field up to its NUL.
func (f field) text(raw *[tarBlock]byte) string {
	b := f.of(raw)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// tarHeader is one header block, before the extended headers.
type tarHeader struct {
	name, link string
	kind       byte
	mode, size int64
	ownSlash   bool // its name, without a prefix, ended in a slash
}

// taken is what is read on for its content or its meaning. Every other type is
// refused for what it is, whatever its header holds.
func (t *tarHeader) taken() bool {
	return strings.IndexByte("\x00012567xgLKV", t.kind) >= 0
}

// tarChecksum reports whether a block is a header at all, to any reader.
func tarChecksum(raw *[tarBlock]byte) bool {
	want, ok := octal(tarChecksumField.of(raw))
	unsigned, signed := tarSums(raw)
	return ok && (want == unsigned || want == signed) && !zeros(raw[:])
}

// tarSums are the checksums of a header: of its bytes, and of signed ones as
// some old writers took them.
func tarSums(raw *[tarBlock]byte) (unsigned, signed int64) {
	for i, c := range raw {
		if i >= tarChecksumField.from && i < tarChecksumField.to {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return unsigned, signed
}

func parseTar(raw *[tarBlock]byte) (*tarHeader, error) {
	t := &tarHeader{
		name: tarNameField.text(raw), link: tarLinkField.text(raw), kind: raw[tarTypeAt],
	}
	t.ownSlash = strings.HasSuffix(t.name, "/")
	if !tarChecksum(raw) {
		return nil, refuse(t.name, RuleTarHeader, "the header's checksum is wrong")
	}
	size, ok := tarNumber(tarSizeField.of(raw))
	if !ok {
		return nil, refuse(t.name, RuleTarHeader, "the size is no number: "+strconv.Quote(string(tarSizeField.of(raw))))
	}
	t.size = size
	t.mode, _ = tarNumber(tarModeField.of(raw))
	t.mode &= 0o7777
	if !t.taken() {
		return t, nil
	}
	if err := t.passedOver(raw); err != nil {
		return nil, err
	}
	return t, t.applyPrefix(raw)
}

// tarNumber reads a number in octal, or in GNU's base 256. Negative ones and
// those over 63 bits are no number.
func tarNumber(b []byte) (int64, bool) {
	if b[0]&0x80 == 0 {
		return octal(b)
	}
	if b[0] != 0x80 || len(b) < 8 {
		return 0, false
	}
	if !zeros(b[1 : len(b)-min(8, len(b)-1)]) {
		return 0, false
	}
	var low [8]byte
	copy(low[8-min(8, len(b)-1):], b[len(b)-min(8, len(b)-1):])
	v := int64(binary.BigEndian.Uint64(low[:]))
	return v, v >= 0
}

// octal reads digits that may have spaces before them, and a NUL or spaces
// after. An empty field is zero, as every reader has it.
func octal(b []byte) (int64, bool) {
	s := strings.TrimLeft(string(b), " ")
	digits := strings.TrimRight(s, " \x00")
	if strings.Trim(digits, "\x00") == "" {
		return 0, true
	}
	v, err := strconv.ParseUint(digits, 8, 63)
	return int64(v), err == nil && digits[0] != '+'
}
