package attack

import (
	"bytes"
	"fmt"
	"strings"
)

// entry is one tar entry, written field by field, so that it can lie.
type entry struct {
	name string
	kind byte // '0' where it is zero
	link string
	mode int64 // 0644 where it is zero, or 0755 of a directory
	body string
	// size is what the header says; the body's length where it is nil.
	size *int64
	// raw changes the finished header before its checksum is made.
	raw func(h []byte)
	// badSum leaves the checksum wrong.
	badSum bool
	// sizeField is written as it is into the size field.
	sizeField string
}

func file(name, body string) entry { return entry{name: name, body: body} }
func dir(name string) entry        { return entry{name: name, kind: '5'} }
func symlink(name, target string) entry {
	return entry{name: name, kind: '2', link: target}
}

func hardlink(name, target string) entry {
	return entry{name: name, kind: '1', link: target}
}

// pax is an extended header for the entry that follows.
func pax(records ...string) entry {
	return entry{name: "PaxHeaders/x", kind: 'x', body: paxRecords(records)}
}

func paxGlobal(records ...string) entry {
	return entry{name: "pax_global_header", kind: 'g', body: paxRecords(records)}
}

// paxRecords writes "key=value" as records with their length in front.
func paxRecords(records []string) string {
	var b strings.Builder
	for _, r := range records {
		size := len(r) + 3
		for len(fmt.Sprintf("%d %s\n", size, r)) != size {
			size++
		}
		fmt.Fprintf(&b, "%d %s\n", size, r)
	}
	return b.String()
}

// gnuLong is a GNU long name (kind 'L') or long link (kind 'K').
func gnuLong(kind byte, text string) entry {
	return entry{name: "././@LongLink", kind: kind, body: text + "\x00"}
}

func (e entry) header() []byte {
	h := make([]byte, 512)
	kind, mode := e.kind, e.mode
	if kind == 0 {
		kind = '0'
	}
	if mode == 0 {
		mode = 0o644
		if kind == '5' {
			mode = 0o755
		}
	}
	size := int64(len(e.body))
	if e.size != nil {
		size = *e.size
	}
	copy(h[0:100], e.name)
	copy(h[100:], fmt.Sprintf("%07o\x00", mode))
	copy(h[108:], "0000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	if e.sizeField != "" {
		copy(h[124:136], e.sizeField)
	}
	copy(h[136:], "14000000000\x00")
	h[156] = kind
	copy(h[157:257], e.link)
	copy(h[257:], "ustar\x0000")
	if e.raw != nil {
		e.raw(h)
	}
	checksum(h)
	if e.badSum {
		h[148] ^= 1
	}
	return h
}

func checksum(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h[:512] {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// tarOpen is a tar without its end marker.
func tarOpen(entries ...entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.Write(e.header())
		b.WriteString(e.body)
		b.Write(make([]byte, (512-len(e.body)%512)%512))
	}
	return b.Bytes()
}

func tarOf(entries ...entry) []byte { return append(tarOpen(entries...), make([]byte, 1024)...) }

// tar makes a Case.Archive of entries.
func tar(entries ...entry) func() []byte { return func() []byte { return tarOf(entries...) } }

// arOf is a Unix archive, as a deb is one.
func arOf(members ...[2]string) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m[0], 0, 0, 0, "100644", len(m[1]))
		b.WriteString(m[1])
		if len(m[1])%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
