package extract

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	zipEndSize       = 22
	zipEnd64Size     = 56
	zipLocatorSize   = 20
	zipCentralSize   = 46
	zipLocalSize     = 30
	zipCommentMost   = 1<<16 - 1
	zipSaturated16   = 1<<16 - 1
	zipSaturated32   = 1<<32 - 1
	magicZipEnd64    = "PK\x06\x06"
	magicZipLocator  = "PK\x06\x07"
	magicZipCentral  = "PK\x01\x02"
	magicZipDescribe = magicZipSpan // a data descriptor has the split marker's magic
)

var le = binary.LittleEndian

// zipEnd says where a zip's central directory is: [offset, offset+size).
type zipEnd struct {
	offset, size, count int64
}

// tail returns the last bytes in which a zip's end record may be, and where
// they begin.
func (r *file) tail() ([]byte, int64, error) {
	n := min(r.size, zipEndSize+zipCommentMost)
	b := make([]byte, n)
	if _, err := r.f.ReadAt(b, r.size-n); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return b, r.size - n, nil
}

// hidesZip reports whether a file that begins as something else ends as a zip
// that some reader would open: Python's takes the last end record within reach
// whatever is before or behind it.
func hidesZip(r *file) (bool, error) {
	tail, at, err := r.tail()
	if err != nil {
		return false, err
	}
	for i := bytes.LastIndex(tail, []byte(magicZipEnd)); i >= 0; i = bytes.LastIndex(tail[:i], []byte(magicZipEnd)) {
		if len(tail)-i < zipEndSize {
			continue
		}
		record := tail[i:]
		size, offset := int64(le.Uint32(record[12:])), int64(le.Uint32(record[16:]))
		begin := at + int64(i) - size
		if size < zipCentralSize || begin < 0 || offset > begin {
			continue
		}
		var magic [4]byte
		if _, err := r.f.ReadAt(magic[:], begin); err == nil && string(magic[:]) == magicZipCentral {
			return true, nil
		}
	}
	return false, nil
}

// findZipEnd finds the one end record, which must be the last thing in the
// file. Any other in reach, or anything behind it, is what another reader
// would go by.
func findZipEnd(r *file) (zipEnd, error) {
	tail, at, err := r.tail()
	if err != nil {
		return zipEnd{}, err
	}
	i := bytes.LastIndex(tail, []byte(magicZipEnd))
	if i < 0 {
		return zipEnd{}, refuse("", RuleTruncated, "there is no end record")
	}
	if len(tail)-i < zipEndSize {
		return zipEnd{}, refuse("", RuleTruncated, "the end record is cut short")
	}
	record := tail[i:]
	comment := int(le.Uint16(record[20:]))
	switch {
	case zipEndSize+comment < len(record):
		return zipEnd{}, refuse("", RuleTrailingData, fmt.Sprintf("%d bytes follow the end record", len(record)-zipEndSize-comment))
	case zipEndSize+comment > len(record):
		return zipEnd{}, refuse("", RuleTruncated, "the archive's comment is cut short")
	}
	e, directoryEnd, err := parseZipEnd(r, record, at+int64(i))
	if err != nil {
		return zipEnd{}, err
	}
	switch {
	case e.count == 0 && e.size == 0 && directoryEnd == 0:
		return e, nil
	case e.offset+e.size > directoryEnd || e.offset < 0 || e.size < 0:
		return zipEnd{}, refuse("", RuleZipEnd, "the central directory is not where the end record has it")
	case e.offset+e.size < directoryEnd:
		return zipEnd{}, misplaced(r, e, directoryEnd)
	}
	return e, secondEnd(tail, at, i, e)
}

// misplaced tells data before the archive, by which all offsets are off, from
// data between the directory and the end record.
func misplaced(r *file, e zipEnd, directoryEnd int64) error {
	var magic [4]byte
	if _, err := r.f.ReadAt(magic[:], directoryEnd-e.size); err == nil && string(magic[:]) == magicZipCentral {
		return refuse("", RuleZipPrefix, fmt.Sprintf("%d bytes before the first member", directoryEnd-e.offset-e.size))
	}
	return refuse("", RuleZipEnd, fmt.Sprintf("%d bytes between the central directory and the end record", directoryEnd-e.offset-e.size))
}

// secondEnd refuses another end record behind the directory's beginning:
// before it, one may be in a stored inner zip.
func secondEnd(tail []byte, at int64, i int, e zipEnd) error {
	from := max(e.offset-at, 0)
	if from < int64(i) && bytes.Contains(tail[from:i], []byte(magicZipEnd)) {
		return refuse("", RuleZipEnd, "there is more than one end record")
	}
	return nil
}

// parseZipEnd reads an end record, and the zip64 one before it if there is
// one. It returns where the directory must end.
func parseZipEnd(r *file, record []byte, at int64) (zipEnd, int64, error) {
	disks := []uint16{le.Uint16(record[4:]), le.Uint16(record[6:])}
	here, total := le.Uint16(record[8:]), le.Uint16(record[10:])
	e := zipEnd{count: int64(total), size: int64(le.Uint32(record[12:])), offset: int64(le.Uint32(record[16:]))}
	locator := make([]byte, zipLocatorSize)
	if at >= zipLocatorSize {
		if _, err := r.f.ReadAt(locator, at-zipLocatorSize); err != nil {
			return e, 0, err
		}
	}
	if string(locator[:4]) == magicZipLocator {
		return parseZipEnd64(r, locator, e, disks, at)
	}
	if e.count == zipSaturated16 || e.size == zipSaturated32 || e.offset == zipSaturated32 {
		return e, 0, refuse("", RuleZipEnd, "the zip64 end record is missing")
	}
	if disks[0] != 0 || disks[1] != 0 || here != total {
		return e, 0, refuse("", RuleUnsupportedFormat, "it is a zip split over several files")
	}
	return e, at, nil
}

func parseZipEnd64(r *file, locator []byte, e zipEnd, disks []uint16, at int64) (zipEnd, int64, error) {
	fault := func(what string) (zipEnd, int64, error) { return e, 0, refuse("", RuleZipEnd, what) }
	start := at - zipLocatorSize - zipEnd64Size
	if le.Uint32(locator[4:]) != 0 || le.Uint32(locator[16:]) > 1 || start < 0 || le.Uint64(locator[8:]) != uint64(start) {
		return fault("the zip64 locator does not point at the record before it")
	}
	record := make([]byte, zipEnd64Size)
	if _, err := r.f.ReadAt(record, start); err != nil {
		return e, 0, err
	}
	count, size, offset := le.Uint64(record[32:]), le.Uint64(record[40:]), le.Uint64(record[48:])
	switch {
	case string(record[:4]) != magicZipEnd64 || le.Uint64(record[4:]) != zipEnd64Size-12:
		return fault("the zip64 end record is malformed")
	case le.Uint32(record[16:]) != 0 || le.Uint32(record[20:]) != 0 || le.Uint64(record[24:]) != count,
		disks[0] != 0 && disks[0] != zipSaturated16, disks[1] != 0 && disks[1] != zipSaturated16:
		return fault("the archive is split over several files")
	case count > 1<<62 || size > 1<<62 || offset > 1<<62,
		e.count != zipSaturated16 && uint64(e.count) != count,
		e.size != zipSaturated32 && uint64(e.size) != size,
		e.offset != zipSaturated32 && uint64(e.offset) != offset:
		return fault("the two end records disagree")
	}
	return zipEnd{count: int64(count), size: int64(size), offset: int64(offset)}, start, nil
}
