package extract

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// More fields of a tar header block: what no entry here is made of, but what
// readers stumble over or take a name from.
var (
	tarUIDField      = field{108, 116}
	tarGIDField      = field{116, 124}
	tarTimeField     = field{136, 148}
	tarMajorField    = field{329, 337}
	tarMinorField    = field{337, 345}
	tarAccessedField = field{476, 488}
	tarChangedField  = field{488, 500}
)

const (
	ustarFormat = "ustar\x0000"
	// tarPrefixShort is where a prefix ends for readers that look for times
	// behind it, and the byte that tells them that there are none.
	tarPrefixShort = 130
	tarPrefixTell  = 475
)

// passedOver refuses a header that some readers pass over. They go on in the
// entry's content, and find other entries there: node-tar, which npm unpacks
// with, does so wherever a header does not please it.
func (t *tarHeader) passedOver(raw *[tarBlock]byte) error {
	isLink := t.kind == tarHardlink || t.kind == tarSymlink
	speaks := t.kind == tarPAX || t.kind == tarPAXGlobal || t.kind == tarGNUName || t.kind == tarGNULink
	unsigned, _ := tarSums(raw)
	sum, _ := octal(tarChecksumField.of(raw))
	switch {
	case sum != unsigned:
		return refuse(t.name, RuleTarHeader, "its checksum is one of signed bytes")
	case !bytes.ContainsAny(bytes.TrimLeft(tarChecksumField.of(raw), " "), " \x00"):
		return refuse(t.name, RuleTarHeader, "its checksum has no end and runs into the type")
	case t.link != "" && !isLink && t.kind != tarPAX && t.kind != tarPAXGlobal:
		return refuse(t.name, RuleTarHeader, "it is no link and has a link's target")
	case t.name == "" && speaks:
		return refuse(t.name, RuleTarHeader, "an extended header without a name")
	case behindNUL(tarNameField.of(raw)) || behindNUL(tarLinkField.of(raw)):
		return refuse(t.name, RuleNameNUL, "the name or the target goes on behind its end")
	}
	numbers := []field{tarModeField, tarUIDField, tarGIDField, tarTimeField}
	if string(tarFormatField.of(raw)) == ustarFormat {
		numbers = append(numbers, tarMajorField, tarMinorField)
		if raw[tarPrefixTell] == 0 {
			numbers = append(numbers, tarAccessedField, tarChangedField)
		}
	}
	for _, f := range numbers {
		if !exactInFloat(f.of(raw)) {
			return refuse(t.name, RuleTarHeader, "a number in base 256 is none, or over 53 bits")
		}
	}
	return nil
}

// behindNUL reports bytes behind the end of a text. Not every reader drops
// them: a pattern without its "dot matches newline" leaves the next line.
func behindNUL(b []byte) bool {
	i := bytes.IndexByte(b, 0)
	return i >= 0 && !zeros(b[i:])
}

// exactInFloat reports whether a field is not in base 256, or holds a number
// that JavaScript can.
func exactInFloat(b []byte) bool {
	if b[0]&0x80 == 0 {
		return true
	}
	front, low := b[:max(len(b)-8, 1)], [8]byte{}
	copy(low[:], b[len(b)-8:])
	if len(b) == 8 && b[0] == 0x80 {
		low[0] = 0 // the mark is in the number itself
	}
	v := int64(binary.BigEndian.Uint64(low[:]))
	switch b[0] {
	case 0x80:
		return zeros(front[1:]) && v >= 0 && v < 1<<53
	case 0xff:
		return bytes.Count(front, []byte{0xff}) == len(front) && v < 0 && v > -1<<53
	}
	return false
}

// applyPrefix puts the front part of a long name before it. Only ustar keeps
// one there. GNU has times in its place, star a shorter one with times behind
// it, and the oldest format nothing; but of the readers some join whatever is
// there, as Python's does, and some only what is ustar to the last byte.
func (t *tarHeader) applyPrefix(raw *[tarBlock]byte) error {
	area := tarPrefixField.of(raw)
	if string(tarFormatField.of(raw)) != ustarFormat {
		if !zeros(area) {
			return refuse(t.name, RuleTarHeader, "a prefix, or what some take for one, in a header that is not ustar")
		}
		return nil
	}
	prefix := tarPrefixField.text(raw)
	if string(tarTrailerField.of(raw)) == "tar\x00" && len(prefix) > tarPrefixShort {
		return refuse(t.name, RuleTarHeader, "a prefix that runs into star's times")
	}
	if raw[tarPrefixTell] == 0 {
		area = area[:tarPrefixShort]
	}
	if behindNUL(area) {
		return refuse(t.name, RuleNameNUL, "the prefix goes on behind its end")
	}
	if prefix != "" {
		t.name = prefix + "/" + t.name
	}
	return nil
}

// pathStripped is a name without its first component, as npm and "tar
// --strip-components=1" drop it: what stands before the first slash, be it
// empty or a dot.
func pathStripped(name string) string {
	_, rest, _ := strings.Cut(name, "/")
	return tidied(rest)
}
