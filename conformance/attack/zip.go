package attack

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
)

// member is one zip member, written field by field, so that it can lie.
type member struct {
	name string
	body string
	// deflate compresses the body.
	deflate bool
	method  *uint16
	flags   uint16
	mode    uint32 // Unix st_mode; 0100644 where it is zero
	// local, where set, is the name that the local header has instead.
	local string
	// crc and size, where set, are what both headers say instead.
	crc  *uint32
	size *uint32
	// localSize, where set, is what the local header alone says.
	localSize *uint32
	// descriptor puts size and checksum behind the data.
	descriptor bool
	// before is put in front of the local header.
	before string
	// at, where set, is the offset that the central directory names.
	at *uint32
	// noLocal writes no local header and no data.
	noLocal bool
	extra   string
}

// archive is a zip with the lies of its end.
type archive struct {
	members []member
	prefix  string
	comment string
	// count, where set, is the number of entries that the end claims.
	count *uint16
	// directory, where set, is the offset of the central directory that the
	// end claims; directorySize its size.
	directory, directorySize *uint32
	noEnd                    bool
	zip64                    bool
	suffix                   string
}

func put16(b *bytes.Buffer, v ...uint16) {
	for _, n := range v {
		_ = binary.Write(b, binary.LittleEndian, n)
	}
}

func put32(b *bytes.Buffer, v ...uint32) {
	for _, n := range v {
		_ = binary.Write(b, binary.LittleEndian, n)
	}
}

func deflated(s string) string {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

type written struct {
	method        uint16
	flags         uint16
	crc           uint32
	packed, plain uint32
	data          string
}

func (m member) encode() written {
	w := written{flags: m.flags, crc: crc32.ChecksumIEEE([]byte(m.body)), plain: uint32(len(m.body)), data: m.body}
	if m.deflate {
		w.method, w.data = 8, deflated(m.body)
	}
	w.packed = uint32(len(w.data))
	if m.method != nil {
		w.method = *m.method
	}
	if m.crc != nil {
		w.crc = *m.crc
	}
	if m.size != nil {
		w.plain = *m.size
	}
	if m.descriptor {
		w.flags |= 8
	}
	return w
}

func (m member) writeLocal(b *bytes.Buffer, w written) {
	name := m.name
	if m.local != "" {
		name = m.local
	}
	plain, packed, crc := w.plain, w.packed, w.crc
	if m.localSize != nil {
		plain = *m.localSize
	}
	if m.descriptor {
		plain, packed, crc = 0, 0, 0
	}
	put32(b, 0x04034b50)
	put16(b, 20, w.flags, w.method, 0, 0x21)
	put32(b, crc, packed, plain)
	put16(b, uint16(len(name)), uint16(len(m.extra)))
	b.WriteString(name + m.extra + w.data)
	if m.descriptor {
		put32(b, 0x08074b50, w.crc, w.packed, w.plain)
	}
}

func (m member) writeCentral(b *bytes.Buffer, w written, offset uint32) {
	mode := m.mode
	if mode == 0 {
		mode = 0o100644
	}
	put32(b, 0x02014b50)
	put16(b, 3<<8|20, 20, w.flags, w.method, 0, 0x21)
	put32(b, w.crc, w.packed, w.plain)
	put16(b, uint16(len(m.name)), uint16(len(m.extra)), 0, 0, 0)
	put32(b, mode<<16, offset)
	b.WriteString(m.name + m.extra)
}

func (a archive) bytes() []byte {
	var b, central bytes.Buffer
	b.WriteString(a.prefix)
	for _, m := range a.members {
		b.WriteString(m.before)
		offset := uint32(b.Len())
		w := m.encode()
		if !m.noLocal {
			m.writeLocal(&b, w)
		}
		if m.at != nil {
			offset = *m.at
		}
		m.writeCentral(&central, w, offset)
	}
	directory, size, count := uint32(b.Len()), uint32(central.Len()), uint16(len(a.members))
	b.Write(central.Bytes())
	if a.zip64 {
		at := uint64(b.Len())
		put32(&b, 0x06064b50)
		_ = binary.Write(&b, binary.LittleEndian, uint64(44))
		put16(&b, 45, 45)
		put32(&b, 0, 0)
		for _, v := range []uint64{uint64(count), uint64(count), uint64(size), uint64(directory)} {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
		put32(&b, 0x07064b50, 0)
		_ = binary.Write(&b, binary.LittleEndian, at)
		put32(&b, 1)
		directory, size, count = 0xffffffff, 0xffffffff, 0xffff
	}
	if a.count != nil {
		count = *a.count
	}
	if a.directory != nil {
		directory = *a.directory
	}
	if a.directorySize != nil {
		size = *a.directorySize
	}
	if !a.noEnd {
		put32(&b, 0x06054b50)
		put16(&b, 0, 0, count, count)
		put32(&b, size, directory)
		put16(&b, uint16(len(a.comment)))
		b.WriteString(a.comment)
	}
	b.WriteString(a.suffix)
	return b.Bytes()
}

// zip makes a Case.Archive of members.
func zip(members ...member) func() []byte {
	return func() []byte { return archive{members: members}.bytes() }
}

func (a archive) make() func() []byte { return a.bytes }
