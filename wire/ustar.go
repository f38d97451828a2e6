package wire

import (
	"bytes"
	"fmt"
	"strconv"
)

// ustarHeader is the header block of a regular file in a result tar. Its one
// form (mode 0644, no owner, no time) depends on name and size alone, so that a
// reader can compare a whole block instead of interpreting its fields: long
// names, extended headers, sparse maps and links have no place here.
//
// archive/tar could write it too, at the price of os/user inside the wall.
func ustarHeader(name string, size int) [tarBlock]byte {
	var h [tarBlock]byte
	put := func(offset int, field string) { copy(h[offset:], field) }
	put(0, name)
	put(100, "0000644\x00") // mode
	put(108, "0000000\x00") // uid
	put(116, "0000000\x00") // gid
	put(124, fmt.Sprintf("%011o\x00", size))
	put(136, "00000000000\x00") // time
	put(148, "        ")        // the sum counts itself as blanks
	put(156, "0")               // a regular file
	put(257, "ustar\x0000")     // magic and version
	put(329, "0000000\x00")     // no device
	put(337, "0000000\x00")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	put(148, fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// ustarSize returns the size that a header block gives, when the block is the
// header of that name and size and nothing else.
func ustarSize(block []byte, name string) (int, bool) {
	digits, ok := bytes.CutSuffix(block[124:136], []byte{0})
	if !ok {
		return 0, false
	}
	size, err := strconv.ParseUint(string(digits), 8, 40)
	if err != nil {
		return 0, false
	}
	want := ustarHeader(name, int(size))
	return int(size), bytes.Equal(block[:tarBlock], want[:])
}
