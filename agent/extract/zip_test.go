package extract_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

const unixLink = 0o120777

func descriptor(signature bool, crc, compressed, size uint32) []byte {
	var b []byte
	if signature {
		b = append(b, "PK\x07\x08"...)
	}
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = binary.LittleEndian.AppendUint32(b, compressed)
	return binary.LittleEndian.AppendUint32(b, size)
}

func TestEachZipMemberAttackHasItsAnswer(t *testing.T) {
	stored := rawZip{name: "a", content: "x"}
	const crcOfX = 0x8cdc1683
	runAttacks(t, []attack{
		{name: "a name that climbs", archive: zipOf(rawZip{name: "../../canary/file", content: "x"}), rule: extract.RuleNameTraversal, entry: "../../canary/file"},
		{name: "an absolute name", archive: zipOf(rawZip{name: "/etc/passwd", content: "x"}), rule: extract.RuleNameAbsolute},
		{name: "a backslash", archive: zipOf(rawZip{name: `..\evil`, content: "x"}), rule: extract.RuleNameBackslash},
		{name: "a NUL in a name", archive: zipOf(rawZip{name: "a.txt\x00.exe", content: "x"}), rule: extract.RuleNameNUL},
		{name: "an empty name", archive: zipOf(rawZip{name: "", content: "x"}), rule: extract.RuleNameEmpty},
		{name: "a name in an old code page", archive: zipOf(rawZip{name: "caf\x82", content: "x"}), tree: map[string]string{"caf%82": "x"}, notes: []string{"name-encoding renamed"}},
		{name: "stored", archive: zipOf(stored), tree: map[string]string{"a": "x"}},
		{name: "deflated", archive: zipOf(rawZip{name: "d/a", content: strings.Repeat("x", 9999), method: 8}), tree: map[string]string{"d": "/", "d/a": strings.Repeat("x", 9999)}},
		{name: "a directory", archive: zipOf(rawZip{name: "d/", mode: 0o40755}, rawZip{name: "e/"}), tree: map[string]string{"d": "/", "e": "/"}},
		{name: "a directory with bytes", archive: zipOf(rawZip{name: "d/", content: "x"}), rule: extract.RuleTypeAmbiguous},
		{name: "a directory by mode alone", archive: zipOf(rawZip{name: "d", mode: 0o40755}), rule: extract.RuleTypeAmbiguous},
		{name: "a link whose name ends in a slash", archive: zipOf(rawZip{name: "d/", mode: unixLink}), rule: extract.RuleTypeAmbiguous},
		{name: "a device", archive: zipOf(rawZip{name: "d", mode: 0o20666}), rule: extract.RuleSpecialFile},
		{name: "set-id bits", archive: zipOf(rawZip{name: "d", mode: 0o104755, content: "x"}), tree: map[string]string{"d": "x"}, notes: []string{"mode-clamped clamped"}},
		{name: "a link that climbs", archive: zipOf(rawZip{name: "l", mode: unixLink, content: "../../canary"}), rule: extract.RuleSymlinkOutside},
		{name: "a write through a link", archive: zipOf(rawZip{name: "l", mode: unixLink, content: ".."}, rawZip{name: "l/x", content: "x"}), rule: extract.RuleThroughSymlink},
		{name: "a link within", archive: zipOf(rawZip{name: "l", mode: unixLink, content: "a"}, stored), tree: map[string]string{"l": "-> a", "a": "x"}},
		{name: "a program that is called a link", archive: zipOf(rawZip{name: "setup.py", mode: unixLink, content: "import evil"}), tree: map[string]string{"setup.py": "import evil"}, notes: []string{"symlink-dangling skipped"}},
		{name: "an absolute link keeps its text", archive: zipOf(rawZip{name: "l", mode: unixLink, content: "/bin/sh"}), tree: map[string]string{"l": "/bin/sh"}, notes: []string{"symlink-absolute skipped"}},
		{name: "a duplicate", archive: zipOf(stored, rawZip{name: "a", content: "y"}), tree: map[string]string{"a": "x", "a~2": "y"}, notes: []string{"duplicate renamed"}},
		{name: "a duplicate takes the place", archive: zipOf(stored, rawZip{name: "a", content: "y"}), policy: duplicates(wire.ClashReplace), tree: map[string]string{"a": "y"}, notes: []string{"duplicate replaced"}},
		{name: "a duplicate is refused", archive: zipOf(stored, rawZip{name: "a", content: "y"}), policy: duplicates(wire.ClashRefuse), rule: extract.RuleDuplicate},
		{name: "a wrong checksum", archive: zipOf(rawZip{name: "a", content: "x", crc: ptr(uint32(1))}), rule: extract.RuleChecksum, entry: "a"},
		{name: "a wrong checksum of deflated bytes", archive: zipOf(rawZip{name: "a", content: "x", method: 8, crc: ptr(uint32(1))}), rule: extract.RuleChecksum},
		{name: "encrypted", archive: zipOf(rawZip{name: "a", content: "x", flags: 1}), rule: extract.RuleEncrypted, entry: "a"},
		{name: "encrypted with AES", archive: zipOf(rawZip{name: "a", content: "x", method: 99}), rule: extract.RuleEncrypted},
		{name: "encrypted in the local header alone", archive: zipOf(rawZip{name: "a", content: "x", localFlags: ptr(uint16(1))}), rule: extract.RuleZipMismatch},
		{name: "an encrypted directory", archive: zipOf(rawZip{name: "a", content: "x", flags: 1 << 13}), rule: extract.RuleEncrypted},
		{name: "LZMA", archive: zipOf(rawZip{name: "a", content: "x", method: 14, data: []byte("x")}), rule: extract.RuleUnsupportedMethod},
		{name: "deflate64", archive: zipOf(rawZip{name: "a", content: "x", method: 9, data: []byte("x")}), rule: extract.RuleUnsupportedMethod},
		{name: "another local name", archive: zipOf(rawZip{name: "a", localName: "b", content: "x"}), rule: extract.RuleZipMismatch, entry: "a"},
		{name: "another local size", archive: zipOf(rawZip{name: "a", content: "x", localSize: ptr(uint32(9))}), rule: extract.RuleZipMismatch},
		{name: "another local method", archive: zipOf(rawZip{name: "a", content: "x", localMethod: ptr(uint16(8))}), rule: extract.RuleZipMismatch},
		{name: "another name in an extra field", archive: zipOf(rawZip{name: "a", content: "x", extra: extraField(0x7075, []byte("\x01\x00\x00\x00\x00b"))}), rule: extract.RuleZipMismatch},
		{name: "another name in a local extra field", archive: zipOf(rawZip{name: "a", content: "x", local: extraField(0x7075, []byte("\x01\x00\x00\x00\x00b"))}), rule: extract.RuleZipMismatch},
		{name: "a stored size that grows", archive: zipOf(rawZip{name: "a", content: "x", size: ptr(uint32(2))}), rule: extract.RuleZipSize},
		{name: "more than declared", archive: zipOf(rawZip{name: "a", content: "xxxx", method: 8, size: ptr(uint32(2))}), rule: extract.RuleZipSize, entry: "a"},
		{name: "less than declared", archive: zipOf(rawZip{name: "a", content: "xxxx", method: 8, size: ptr(uint32(9))}), rule: extract.RuleZipSize},
		{name: "data behind the compressed content", archive: zipOf(rawZip{name: "a", content: "x", method: 8, data: append((&rawZip{content: "x", method: 8}).compress(), "hidden!!"...)}), rule: extract.RuleTrailingData},
		{name: "compressed bytes that do not decode", archive: zipOf(rawZip{name: "a", content: "x", method: 8, data: []byte("\xff\xff\xff\xff")}), rule: extract.RuleCorrupt, entry: "a"},
		{name: "compressed bytes that end early", archive: zipOf(rawZip{name: "a", content: "hello hello", method: 8, data: (&rawZip{content: "hello hello", method: 8}).compress()[:4]}), rule: extract.RuleTruncated, entry: "a"},
		{name: "a data descriptor", archive: zipOf(rawZip{name: "a", content: "x", flags: 8, zeroLocal: true, describe: descriptor(true, crcOfX, 1, 1)}), tree: map[string]string{"a": "x"}},
		{name: "a data descriptor without a signature", archive: zipOf(rawZip{name: "a", content: "x", flags: 8, zeroLocal: true, describe: descriptor(false, crcOfX, 1, 1)}), tree: map[string]string{"a": "x"}},
		{name: "a data descriptor that lies", archive: zipOf(rawZip{name: "a", content: "x", flags: 8, zeroLocal: true, describe: descriptor(true, crcOfX, 1, 9)}), rule: extract.RuleZipMismatch},
		{name: "a data descriptor that is missing", archive: zipOf(rawZip{name: "a", content: "x", flags: 8, zeroLocal: true}), rule: extract.RuleZipGap},
		{name: "no sizes and no descriptor", archive: zipOf(rawZip{name: "a", content: "x", zeroLocal: true}), rule: extract.RuleZipMismatch},
		{name: "a cut extra field", archive: zipOf(rawZip{name: "a", content: "x", extra: []byte("\x99\x99\xff\x00")}), rule: extract.RuleZipDirectory},
		{name: "zip64 sizes", archive: zipOf(rawZip{
			name: "a", content: "x", size: ptr(uint32(1<<32 - 1)), compressed: ptr(uint32(1<<32 - 1)),
			extra: extraField(1, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")),
			local: extraField(1, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")),
		}), tree: map[string]string{"a": "x"}},
		{name: "zip64 sizes that are missing", archive: zipOf(rawZip{name: "a", content: "x", size: ptr(uint32(1<<32 - 1)), compressed: ptr(uint32(1<<32 - 1))}), rule: extract.RuleZipDirectory},
		{name: "zip64 sizes against the others", archive: zipOf(rawZip{name: "a", content: "x", extra: extraField(1, []byte("\x09\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00"))}), tree: map[string]string{"a": "x"}},
	})
}

func TestEachZipLayoutAttackHasItsAnswer(t *testing.T) {
	a, b := rawZip{name: "a", content: "x"}, rawZip{name: "b", content: "y"}
	good := zipOf(a, b)
	inner := zipOf(rawZip{name: "deep", content: "z"})
	runAttacks(t, []attack{
		{name: "two members at one place", archive: zipOf(a, rawZip{name: "a2", content: "x", offset: ptr(uint32(0))}), rule: extract.RuleZipOverlap},
		{name: "a bomb of overlapping members", archive: overlapping(200), rule: extract.RuleZipOverlap},
		{name: "a member the directory does not list", archive: zipOf(a, rawZip{name: "b", content: "y", before: zipOf(rawZip{name: "hidden", content: "h"})[:37]}), rule: extract.RuleZipGap, entry: "a"},
		{name: "data before the first member", archive: zipWith(zipOptions{prefix: []byte("PK\x03\x04 not a header really, thirty bytes and some")}, a), rule: extract.RuleZipPrefix},
		{name: "a script before the archive", archive: zipWith(zipOptions{prefix: []byte("#!/usr/bin/python3\n"), shift: true}, a), rule: extract.RuleZipPrefix},
		{name: "a zip before the archive", archive: zipWith(zipOptions{prefix: inner, shift: true}, a), rule: extract.RuleZipPrefix},
		{name: "data before the end record", archive: zipWith(zipOptions{gap: []byte("hidden")}, a), rule: extract.RuleZipEnd},
		{name: "data behind the end record", archive: zipWith(zipOptions{trailing: []byte("hidden")}, a), rule: extract.RuleTrailingData},
		{name: "a zip behind the archive", archive: append(append([]byte{}, good...), inner...), rule: extract.RuleZipPrefix},
		{name: "an end record in the comment", archive: zipWith(zipOptions{comment: inner[len(inner)-22:]}, a), rule: extract.RuleZipEnd},
		{name: "a comment", archive: zipWith(zipOptions{comment: []byte("hello")}, a), tree: map[string]string{"a": "x"}},
		{name: "a comment that is cut short", archive: zipWith(zipOptions{comment: []byte("hello"), commentSize: ptr(uint16(9))}, a), rule: extract.RuleTruncated},
		{name: "more entries than declared", archive: zipWith(zipOptions{count: ptr(uint16(1))}, a, b), rule: extract.RuleZipDirectory},
		{name: "fewer entries than declared", archive: zipWith(zipOptions{count: ptr(uint16(3))}, a, b), rule: extract.RuleZipDirectory},
		{name: "a count that needs zip64", archive: zipWith(zipOptions{count: ptr(uint16(0xffff))}, a), rule: extract.RuleZipEnd},
		{name: "cut in the middle", archive: good[:len(good)/2], rule: extract.RuleTruncated},
		{name: "cut in the end record", archive: good[:len(good)-5], rule: extract.RuleTruncated},
		{name: "no member", archive: zipOf(), rule: extract.RuleEmpty},
		{name: "an inner zip is a file", archive: zipOf(rawZip{name: "i.zip", content: string(inner)}), tree: map[string]string{"i.zip": string(inner)}},
		{name: "a split zip", archive: []byte("PK\x07\x08 the first part of several, and so on and on"), rule: extract.RuleUnsupportedFormat},
		{name: "a bomb", archive: zipOf(rawZip{name: "zeros", content: strings.Repeat("\x00", 20<<20), method: 8}), rule: extract.RuleLimitRatio, entry: "zeros"},
	})
}

// overlapping is a zip whose members all have the same bytes.
func overlapping(n int) []byte {
	members := []rawZip{{name: "kernel", content: strings.Repeat("\x00", 1000), method: 8}}
	for i := range n {
		members = append(members, rawZip{name: "q" + strings.Repeat("x", i), content: members[0].content, method: 8, data: members[0].compress(), offset: ptr(uint32(0))})
	}
	return zipOf(members...)
}

func TestLargeZipMembersAreCheckedAlongTheWay(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	runAttacks(t, []attack{
		{name: "stored", archive: zipOf(rawZip{name: "a", content: big}), tree: map[string]string{"a": big}},
		{name: "deflated", archive: zipOf(rawZip{name: "a", content: big, method: 8}), tree: map[string]string{"a": big}},
		{name: "with a descriptor", archive: bigWithDescriptor(t, big), tree: map[string]string{"a": big}},
		{name: "a wrong checksum", archive: zipOf(rawZip{name: "a", content: big, method: 8, crc: ptr(uint32(7))}), rule: extract.RuleChecksum},
		{name: "more than declared", archive: zipOf(rawZip{name: "a", content: big, method: 8, size: ptr(uint32(len(big) - 1))}), rule: extract.RuleZipSize},
		{name: "less than declared", archive: zipOf(rawZip{name: "a", content: big, method: 8, size: ptr(uint32(len(big) + 1))}), rule: extract.RuleZipSize},
		{name: "data behind the content", archive: zipOf(rawZip{name: "a", content: big, method: 8, data: append((&rawZip{content: big, method: 8}).compress(), "hidden!!"...)}), rule: extract.RuleTrailingData},
		{name: "a gap behind it", archive: zipOf(rawZip{name: "a", content: big, method: 8, describe: make([]byte, 99)}), rule: extract.RuleZipGap},
		{name: "another local name", archive: zipOf(rawZip{name: "a", localName: "b", content: big, method: 8}), rule: extract.RuleZipMismatch},
	})
}

func bigWithDescriptor(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheFirstBadMemberOfAZipIsTheOneNamedEachTime(t *testing.T) {
	var members []rawZip
	for i := range 64 {
		m := rawZip{name: "m" + strings.Repeat("x", i), content: strings.Repeat("y", 5000), method: 8}
		if i >= 20 {
			m.crc = ptr(uint32(i))
		}
		members = append(members, m)
	}
	archive := zipOf(members...)
	for range 20 {
		got := refusal(t, newRoom(t, wire.DefaultExtractPolicy()).unpack(archive, "pkg"))
		if got.Rule != extract.RuleChecksum || got.Entry != members[20].name {
			t.Fatalf("refused by %q at %q, want the first bad member", got.Rule, got.Entry)
		}
	}
}

func TestAReplacingZipIsTheSameHoweverItsWorkersRun(t *testing.T) {
	var members []rawZip
	for range 50 {
		for _, content := range []string{"first", "second", "last"} {
			members = append(members, rawZip{name: "a", content: strings.Repeat(content, 1000), method: 8})
		}
	}
	members = append(members, rawZip{name: "b", content: "file"}, rawZip{name: "b/"}, rawZip{name: "b/c", content: "x"})
	policy := wire.DefaultExtractPolicy()
	policy.Duplicates = wire.ClashReplace
	for range 10 {
		r := newRoom(t, policy)
		if err := r.unpack(zipOf(members...), "pkg"); err != nil {
			t.Fatal(err)
		}
		compareTrees(t, r.tree("pkg"), map[string]string{"a": strings.Repeat("last", 1000), "b": "/", "b/c": "x"})
		if got := r.x.Report(); got.Replaced != 150 {
			t.Errorf("%d were replaced, want 150", got.Replaced)
		}
	}
}
