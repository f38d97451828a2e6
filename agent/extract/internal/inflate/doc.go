// Package inflate decodes DEFLATE and gzip, once more, because inflating is
// what unpacking waits for: the writer on the other core is idle more than
// half of the time. It keeps 64 bits of input at hand, decodes up to three
// literals and a match for each two refills from tables of 11 and 8 bits, and
// copies matches eight bytes at a time. It is plain Go: every index is checked.
//
// It is strict where decoders differ: codes must be complete, but for a
// distance code of a single length 1, and the input is never read past the
// stream's last byte as far as a caller can tell.
package inflate
