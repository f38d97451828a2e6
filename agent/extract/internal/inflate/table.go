package inflate

import "math/bits"

const (
	lengthBits   = 11
	distanceBits = 8
	longest      = 15 // bits of a code

	// A subtable has an entry for every ending of the longest code, and holds
	// at least two codes: that bounds how many there can be.
	lengthEntries   = 1<<lengthBits + 288/2<<(longest-lengthBits)
	distanceEntries = 1<<distanceBits + 32/2<<(longest-distanceBits)
)

// An entry of a table. The low byte is how many bits it takes from the input,
// the byte above how many of those are the code and not its extra bits; from
// bit 16 on is the value: a literal, or the base of a length or distance. Of a
// pointer to a subtable, the second byte is the subtable's bits.
const (
	isLiteral  = 1 << 31
	isSpecial  = 1 << 15 // end of block, pointer, or no code at all
	isPointer  = 1 << 14
	isEnd      = 1 << 14 << 16 // set in the value, with isSpecial
	valueShift = 16
	codeShift  = 8
	codeMask   = 0x3f
)

// build makes a table of the codes whose lengths are given; entry turns a
// symbol and its code's length into an entry. It reports whether the lengths
// make a code.
func build(table []uint32, tableBits int, lengths []uint8, single bool, entry func(symbol int, length uint32) uint32) bool {
	var count [longest + 1]int
	for _, l := range lengths {
		count[l]++
	}
	used := len(lengths) - count[0]
	count[0] = 0
	left, offset := 1, [longest + 2]int{}
	for l := 1; l <= longest; l++ {
		left = left<<1 - count[l]
		if left < 0 {
			return false
		}
		offset[l+1] = offset[l] + count[l]
	}
	// A complete code leaves no entry of a subtable alone.
	for i := range table[:1<<tableBits] {
		table[i] = isSpecial
	}
	if alone := used == 0 || used == 1 && count[1] == 1; left > 0 && (!single || !alone) {
		return false
	}
	var sorted [288]uint16
	for symbol, l := range lengths {
		if l != 0 {
			sorted[offset[l]] = uint16(symbol)
			offset[l]++
		}
	}
	fillTable(table, tableBits, &count, sorted[:used], entry)
	return true
}

func fillTable(table []uint32, tableBits int, count *[longest + 1]int, sorted []uint16, entry func(int, uint32) uint32) {
	code, next, i := 0, 1<<tableBits, 0
	subBits := longest - tableBits
	for l := 1; l <= longest; l++ {
		for range count[l] {
			reversed := int(bits.Reverse16(uint16(code)) >> (16 - l))
			e := entry(int(sorted[i]), uint32(l))
			i++
			code++
			if l <= tableBits {
				for at := reversed; at < 1<<tableBits; at += 1 << l {
					table[at] = e
				}
				continue
			}
			prefix := reversed & (1<<tableBits - 1)
			if table[prefix]&isPointer == 0 {
				table[prefix] = uint32(next)<<valueShift | isSpecial | isPointer | uint32(subBits)<<codeShift | uint32(tableBits)
				next += 1 << subBits
			}
			// The pointer takes the first bits; the entry counts the rest.
			e -= uint32(tableBits)<<codeShift | uint32(tableBits)
			start := int(table[prefix] >> valueShift)
			for at := reversed >> tableBits; at < 1<<subBits; at += 1 << (l - tableBits) {
				table[start+at] = e
			}
		}
		code <<= 1
	}
}

var (
	lengthBase  = [31]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [31]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}

	distanceBase  = [32]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distanceExtra = [32]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

func lengthEntry(symbol int, l uint32) uint32 {
	switch {
	case symbol < 256:
		return isLiteral | uint32(symbol)<<valueShift | l<<codeShift | l
	case symbol == 256:
		return isSpecial | isEnd | l<<codeShift | l
	case symbol > 285:
		return isSpecial | l<<codeShift | l
	}
	i := symbol - 257
	return uint32(lengthBase[i])<<valueShift | l<<codeShift | l + uint32(lengthExtra[i])
}

func distanceEntry(symbol int, l uint32) uint32 {
	if symbol > 29 {
		return isSpecial | l<<codeShift | l
	}
	return uint32(distanceBase[symbol])<<valueShift | l<<codeShift | l + uint32(distanceExtra[symbol])
}

func codeEntry(symbol int, l uint32) uint32 { return uint32(symbol)<<valueShift | l<<codeShift | l }
