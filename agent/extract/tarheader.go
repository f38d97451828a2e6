package extract

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
	tarMagicField    = field{257, 263}
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
}

// tarChecksum reports whether a block is a header at all. Some old writers
// summed signed bytes.
func tarChecksum(raw *[tarBlock]byte) bool {
	want, ok := octal(tarChecksumField.of(raw))
	if !ok {
		return false
	}
	var unsigned, signed int64
	for i, c := range raw {
		if i >= tarChecksumField.from && i < tarChecksumField.to {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return (want == unsigned || want == signed) && !zeros(raw[:])
}

func parseTar(raw *[tarBlock]byte) (*tarHeader, error) {
	t := &tarHeader{
		name: tarNameField.text(raw), link: tarLinkField.text(raw), kind: raw[tarTypeAt],
	}
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
	return t, t.applyPrefix(raw)
}

// applyPrefix puts the front part of a long name before it. Only ustar has
// one; GNU keeps times there, and star a shorter one with times behind it.
func (t *tarHeader) applyPrefix(raw *[tarBlock]byte) error {
	prefix := tarPrefixField.text(raw)
	switch string(tarMagicField.of(raw)) {
	case "ustar\x00":
		if string(tarTrailerField.of(raw)) == "tar\x00" && len(prefix) > 130 {
			return refuse(t.name, RuleTarHeader, "a prefix that runs into star's times")
		}
	case "ustar ":
		if prefix == "" {
			return nil
		}
		if _, ok := tarNumber(raw[345:357]); !ok {
			return refuse(t.name, RuleTarHeader, "a GNU header with a ustar prefix")
		}
		return nil
	default:
		return nil
	}
	if prefix != "" {
		t.name = prefix + "/" + t.name
	}
	return nil
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

const (
	paxPath = "path"
	paxLink = "linkpath"
	paxSize = "size"
	// octalCap is the largest size that a ustar header can hold: 8 GiB - 1.
	octalCap = 1<<33 - 1
)

// parsePAX reads the records "length key=value\n" of an extended header. Of
// those keys that say what an entry is, none may come twice.
func parsePAX(entry string, b []byte) (map[string]string, error) {
	fault := func(what string) (map[string]string, error) {
		return nil, refuse(entry, RuleTarPAX, what)
	}
	records := make(map[string]string)
	for len(b) > 0 {
		digits, _, ok := strings.Cut(string(b[:min(len(b), 12)]), " ")
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || digits[0] == '0' || digits[0] == '+' || n > uint64(len(b)) || n < uint64(len(digits))+len4 {
			return fault("a record's length is wrong")
		}
		record := string(b[len(digits)+1 : n])
		b = b[n:]
		key, value, ok := strings.Cut(strings.TrimSuffix(record, "\n"), "=")
		if !ok || key == "" || record[len(record)-1] != '\n' || strings.Contains(key, "\x00") {
			return fault("a record is not key=value")
		}
		switch {
		case strings.HasPrefix(key, "GNU.sparse.") || key == "SCHILY.realsize" || strings.HasPrefix(key, "SUN.holesdata"):
			return nil, refuse(entry, RuleTarSparse, "the record "+quote(key)+" makes it a sparse file")
		case key != paxPath && key != paxLink && key != paxSize:
			continue
		}
		if _, again := records[key]; again {
			return nil, refuse(entry, RuleTarConflict, "two records of "+key)
		}
		if value == "" || strings.Contains(value, "\x00") {
			return fault("the record of " + key + " is empty or has a NUL byte")
		}
		records[key] = value
	}
	return records, nil
}

// len4 is the length of a record's rest at its shortest: " k=\n".
const len4 = 4

// applyPAX lets an entry's PAX records speak. A size is believed only where
// the header agrees or could not have said it: a reader that ignores PAX
// would find other entries behind another size.
func (r *tarReader) applyPAX(t *tarHeader, h *header) error {
	if v, ok := r.pax[paxPath]; ok {
		h.name = v
	}
	if v, ok := r.pax[paxLink]; ok {
		h.target = v
	}
	v, ok := r.pax[paxSize]
	if !ok {
		return nil
	}
	size, err := strconv.ParseUint(v, 10, 63)
	if err != nil || v[0] == '+' {
		return refuse(h.name, RuleTarPAX, "the size "+quote(v)+" is no decimal number")
	}
	if int64(size) != t.size && size <= octalCap {
		return refuse(h.name, RuleTarSize, fmt.Sprintf("%d bytes in its PAX header, %d in its own", size, t.size))
	}
	h.size = int64(size)
	return nil
}
