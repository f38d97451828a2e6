package extract_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

// rawZip is one member with both of its headers, each field of which a test
// can set apart from the other.
type rawZip struct {
	name      string
	localName string // name by default
	content   string
	method    uint16
	flags     uint16
	mode      uint32 // Unix, 0 for none
	extra     []byte // of the directory
	local     []byte // extra of the local header

	data        []byte // the compressed bytes, made from content by default
	size        *uint32
	compressed  *uint32
	localSize   *uint32
	localMethod *uint16
	localFlags  *uint16
	crc         *uint32
	describe    []byte // written behind the data
	zeroLocal   bool
	before      []byte // written before the local header, unaccounted
	offset      *uint32
}

func (m *rawZip) compress() []byte {
	if m.data != nil || m.method == 0 {
		if m.data == nil {
			return []byte(m.content)
		}
		return m.data
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6)
	_, _ = w.Write([]byte(m.content))
	_ = w.Close()
	return b.Bytes()
}

func or[T any](p *T, v T) T {
	if p != nil {
		return *p
	}
	return v
}

type zipOptions struct {
	prefix, gap, comment, trailing []byte
	commentSize                    *uint16
	count                          *uint16
	shift                          bool // offsets count from behind the prefix
}

func zipOf(members ...rawZip) []byte { return zipWith(zipOptions{}, members...) }

func zipWith(o zipOptions, members ...rawZip) []byte {
	out := append([]byte{}, o.prefix...)
	var directory []byte
	le := binary.LittleEndian
	for _, m := range members {
		out = append(out, m.before...)
		data := m.compress()
		offset := uint32(len(out))
		if o.shift {
			offset -= uint32(len(o.prefix))
		}
		crc := or(m.crc, crc32.ChecksumIEEE([]byte(m.content)))
		size, compressed := or(m.size, uint32(len(m.content))), or(m.compressed, uint32(len(data)))
		localName := m.localName
		if localName == "" {
			localName = m.name
		}
		h := le.AppendUint32(nil, 0x04034b50)
		h = le.AppendUint16(h, 20)
		h = le.AppendUint16(h, or(m.localFlags, m.flags))
		h = le.AppendUint16(h, or(m.localMethod, m.method))
		h = append(h, 0, 0, 0x21, 0)
		if m.zeroLocal {
			h = append(h, make([]byte, 12)...)
		} else {
			h = le.AppendUint32(h, crc)
			h = le.AppendUint32(h, compressed)
			h = le.AppendUint32(h, or(m.localSize, size))
		}
		h = le.AppendUint16(h, uint16(len(localName)))
		h = le.AppendUint16(h, uint16(len(m.local)))
		h = append(append(h, localName...), m.local...)
		out = append(append(append(out, h...), data...), m.describe...)

		c := le.AppendUint32(nil, 0x02014b50)
		creator := uint16(20)
		if m.mode != 0 {
			creator |= 3 << 8
		}
		c = le.AppendUint16(c, creator)
		c = le.AppendUint16(c, 20)
		c = le.AppendUint16(c, m.flags)
		c = le.AppendUint16(c, m.method)
		c = append(c, 0, 0, 0x21, 0)
		c = le.AppendUint32(c, crc)
		c = le.AppendUint32(c, compressed)
		c = le.AppendUint32(c, size)
		c = le.AppendUint16(c, uint16(len(m.name)))
		c = le.AppendUint16(c, uint16(len(m.extra)))
		c = append(c, make([]byte, 6)...)
		c = le.AppendUint32(c, m.mode<<16)
		c = le.AppendUint32(c, or(m.offset, offset))
		directory = append(append(append(directory, c...), m.name...), m.extra...)
	}
	at := uint32(len(out))
	if o.shift {
		at -= uint32(len(o.prefix))
	}
	out = append(append(out, directory...), o.gap...)
	out = le.AppendUint32(out, 0x06054b50)
	out = append(out, 0, 0, 0, 0)
	count := or(o.count, uint16(len(members)))
	out = le.AppendUint16(out, count)
	out = le.AppendUint16(out, count)
	out = le.AppendUint32(out, uint32(len(directory)))
	out = le.AppendUint32(out, at)
	out = le.AppendUint16(out, or(o.commentSize, uint16(len(o.comment))))
	return append(append(out, o.comment...), o.trailing...)
}

func extraField(id uint16, content []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, id)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(content)))
	return append(b, content...)
}
