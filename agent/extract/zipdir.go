package extract

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The flags of a zip member that change what its bytes are.
const (
	zipEncrypted    = 1 << 0
	zipDescriptor   = 1 << 3
	zipPatched      = 1 << 5
	zipStrong       = 1 << 6
	zipUTF8         = 1 << 11
	zipMasked       = 1 << 13
	zipFlagsCompare = zipEncrypted | zipDescriptor | zipPatched | zipStrong | zipUTF8 | zipMasked

	zipStored   = 0
	zipDeflated = 8
	zipAES      = 99

	extraZip64 = 0x0001
	extraAES   = 0x9901
	extraPath  = 0x7075
)

// zipMember is one entry of the central directory.
type zipMember struct {
	name             string
	offset, span     int64 // of everything that is the member's, headers too
	compressed, size int64
	crc              uint32
	flags, method    uint16
	creator          byte
	attributes       uint32
}

// readDirectory reads the central directory, which must be exactly its
// declared entries.
func readDirectory(ctx context.Context, s *sink, src *file, e zipEnd) ([]zipMember, error) {
	if left := s.x.policy.MaxEntries - s.x.entries; e.count > left {
		return nil, refuse("", RuleLimitEntries, fmt.Sprintf("%d entries, want at most %d", e.count, s.x.policy.MaxEntries))
	}
	if e.count*zipCentralSize > e.size {
		return nil, refuse("", RuleZipDirectory, fmt.Sprintf("%d entries in a directory of %d bytes", e.count, e.size))
	}
	in := bufio.NewReaderSize(io.NewSectionReader(src.f, e.offset, e.size), readSize)
	members := make([]zipMember, 0, e.count)
	for range e.count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := readCentral(in, s.x.policy.MaxPathBytes)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, refuse("", RuleZipDirectory, "the directory has fewer entries than declared")
		}
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, refuse("", RuleZipDirectory, "the directory has more than its declared entries")
	}
	return members, layOut(members, e.offset)
}

func readCentral(in *bufio.Reader, namesMost int64) (zipMember, error) {
	var raw [zipCentralSize]byte
	if _, err := io.ReadFull(in, raw[:]); err != nil {
		return zipMember{}, err
	}
	m := zipMember{
		creator: raw[5], flags: le.Uint16(raw[8:]), method: le.Uint16(raw[10:]), crc: le.Uint32(raw[16:]),
		compressed: int64(le.Uint32(raw[20:])), size: int64(le.Uint32(raw[24:])),
		attributes: le.Uint32(raw[38:]), offset: int64(le.Uint32(raw[42:])),
	}
	if string(raw[:4]) != magicZipCentral {
		return m, refuse("", RuleZipDirectory, "an entry has no signature")
	}
	name := make([]byte, le.Uint16(raw[28:]))
	if _, err := io.ReadFull(in, name); err != nil {
		return m, err
	}
	m.name = string(name)
	if int64(len(name)) > namesMost {
		return m, refuse(m.name, RuleLimitPathBytes, fmt.Sprintf("the name has %d bytes, want at most %d", len(name), namesMost))
	}
	extra := make([]byte, le.Uint16(raw[30:]))
	if _, err := io.ReadFull(in, extra); err != nil {
		return m, err
	}
	if _, err := in.Discard(int(le.Uint16(raw[32:]))); err != nil {
		return m, err
	}
	if disk := le.Uint16(raw[34:]); disk != 0 {
		return m, refuse(m.name, RuleZipDirectory, "the member is on another disk")
	}
	if err := m.extras(extra, &m.size, &m.compressed, &m.offset); err != nil {
		return m, err
	}
	return m, m.fault()
}

// extras reads the extra fields that matter: zip64's, whose values stand for
// the saturated ones in their order, and those that change name or content.
func (m *zipMember) extras(extra []byte, values ...*int64) error {
	seen64 := false
	for len(extra) >= 4 {
		id, n := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return refuse(m.name, RuleZipDirectory, "an extra field is cut short")
		}
		content := extra[4 : 4+n]
		extra = extra[4+n:]
		switch id {
		case extraAES:
			return refuse(m.name, RuleEncrypted, "the member is encrypted with AES")
		case extraPath:
			if n < 5 || string(content[5:]) != m.name {
				return refuse(m.name, RuleZipMismatch, "an extra field gives it another name")
			}
		case extraZip64:
			if seen64 {
				return refuse(m.name, RuleZipDirectory, "two zip64 fields")
			}
			seen64 = true
			if !saturated(content, values) {
				return refuse(m.name, RuleZipDirectory, "the zip64 field does not fit its entry")
			}
		}
	}
	// Up to three bytes are left by writers that align the data behind.
	for _, v := range values {
		if !seen64 && *v == zipSaturated32 {
			return refuse(m.name, RuleZipDirectory, "the zip64 field is missing")
		}
	}
	return nil
}

// saturated replaces each value that is all ones with the next of a zip64
// field. Some writers give values that the entry has already; those must agree.
func saturated(content []byte, values []*int64) bool {
	needed := 0
	for _, v := range values {
		if *v == zipSaturated32 {
			needed++
		}
	}
	all := len(content) >= 8*len(values) && needed < len(values)
	for _, v := range values {
		if *v != zipSaturated32 && !all {
			continue
		}
		if len(content) < 8 {
			return false
		}
		value := le.Uint64(content)
		content = content[8:]
		if value > 1<<62 || *v != zipSaturated32 && uint64(*v) != value {
			return false
		}
		*v = int64(value)
	}
	return true
}

// fault refuses what can't be read, and sizes that can't be true.
func (m *zipMember) fault() error {
	switch {
	case m.flags&(zipEncrypted|zipStrong|zipMasked) != 0 || m.method == zipAES:
		return refuse(m.name, RuleEncrypted, "the member is encrypted")
	case m.flags&zipPatched != 0 || m.method != zipStored && m.method != zipDeflated:
		return refuse(m.name, RuleUnsupportedMethod, fmt.Sprintf("compression method %d", m.method))
	case m.method == zipStored && m.compressed != m.size:
		return refuse(m.name, RuleZipSize, fmt.Sprintf("%d stored bytes that became %d", m.compressed, m.size))
	}
	return nil
}

// layOut gives each member the bytes up to the next one. Together they must
// be all that is before the directory: a reader that goes from header to
// header must find the members that the directory lists, and no others.
func layOut(members []zipMember, end int64) error {
	order := make([]int32, len(members))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(members[a].offset, members[b].offset) })
	if len(order) == 0 {
		if end != 0 {
			return refuse("", RuleZipPrefix, fmt.Sprintf("%d bytes and no member", end))
		}
		return nil
	}
	if first := members[order[0]]; first.offset != 0 {
		return refuse(first.name, RuleZipPrefix, fmt.Sprintf("%d bytes before the first member", first.offset))
	}
	for i, at := range order {
		m := &members[at]
		next := end
		if i+1 < len(order) {
			next = members[order[i+1]].offset
		}
		m.span = next - m.offset
		if m.span < zipLocalSize+int64(len(m.name))+m.compressed {
			return refuse(m.name, RuleZipOverlap, "its bytes run into what follows")
		}
	}
	return nil
}

// What a member is, by the mode that a Unix writer stored with it.
const (
	creatorUnix = 3
	creatorOSX  = 19

	unixType    = 0o170000
	unixDir     = 0o040000
	unixRegular = 0o100000
	unixSymlink = 0o120000
)

func (m *zipMember) mode() int64 {
	if m.creator != creatorUnix && m.creator != creatorOSX {
		return 0
	}
	return int64(m.attributes >> 16)
}

// kindOf says what a member is. The name's last byte and the mode must not
// contradict each other.
func (m *zipMember) kindOf() (kind, error) {
	slash := strings.HasSuffix(m.name, "/")
	switch t := m.mode() & unixType; {
	case slash && (t == 0 || t == unixDir || t == unixRegular):
		if m.size != 0 {
			return 0, refuse(m.name, RuleTypeAmbiguous, fmt.Sprintf("a directory with %d bytes", m.size))
		}
		return kindDir, nil
	case t == unixDir || slash:
		return 0, refuse(m.name, RuleTypeAmbiguous, "its name and its mode differ on whether it is a directory")
	case t == 0 || t == unixRegular:
		return kindFile, nil
	case t == unixSymlink:
		return kindSymlink, nil
	}
	return 0, refuse(m.name, RuleSpecialFile, "a device, FIFO or socket")
}
