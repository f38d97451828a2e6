package extract

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
		if !ok || key == "" || record[len(record)-1] != '\n' || strings.ContainsFunc(key, unicode.IsControl) {
			return fault("a record is not key=value")
		}
		if what := paxFault(key, value); what != "" {
			return fault("the record of " + quote(key) + " " + what)
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
		records[key] = value
	}
	return records, nil
}

// paxFault says why readers would take a record for something else. Those that
// split a header at its newlines, as node-tar and Rust's tar do, find a record
// of their own in a value that has one; and one that decodes a header as text
// drops the record that is none.
func paxFault(key, value string) string {
	names := key == paxPath || key == paxLink
	binary := strings.HasPrefix(key, "SCHILY.xattr.") || strings.HasPrefix(key, "LIBARCHIVE.xattr.")
	_, next, split := strings.Cut(value, "\n")
	switch {
	case split && (!binary || strings.ContainsAny(next, "0123456789")):
		// An attribute may be any bytes, but no record begins without a digit.
		return "has a newline, behind which some readers see another record"
	case !binary && strings.Contains(value, "\x00"):
		return "has a NUL byte"
	case value == "" && (names || key == paxSize):
		return "is empty"
	case names && !utf8.ValidString(value):
		return "is not UTF-8"
	}
	return ""
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
