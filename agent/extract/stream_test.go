package extract_test

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func xzOf(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdOf(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// flip returns b with one bit of the byte at i changed, from the end if i is
// negative.
func flip(b []byte, i int) []byte {
	b = bytes.Clone(b)
	if i < 0 {
		i += len(b)
	}
	b[i] ^= 1
	return b
}

// xzWithDictionary makes the first block of an xz ask for a dictionary of
// another size.
func xzWithDictionary(b []byte, code byte) []byte {
	b = bytes.Clone(b)
	header := b[12 : 12+(int(b[12])+1)*4]
	at := bytes.IndexByte(header[2:], 0x21) + 2
	header[at+2] = code
	sum := crc32.ChecksumIEEE(header[:len(header)-4])
	header[len(header)-4], header[len(header)-3], header[len(header)-2], header[len(header)-1] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	return b
}

// zstdWithWindow is a frame that asks for a window of 2^exponent bytes.
func zstdWithWindow(exponent byte) []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, (exponent - 10) << 3, 0x01, 0x00, 0x00}, make([]byte, 64)...)
}

func TestEachCompressedStreamHasItsAnswer(t *testing.T) {
	one := tarOf(file("a", strings.Repeat("content ", 100)))
	tree := map[string]string{"a": strings.Repeat("content ", 100)}
	gz, xz, zst := gzipOf(one), xzOf(t, one), zstdOf(t, one)
	zeros := tarOf(file("z", strings.Repeat("\x00", 24<<20)))
	runAttacks(t, []attack{
		{name: "gzip", archive: gz, tree: tree},
		{name: "xz", archive: xz, tree: tree},
		{name: "zstd", archive: zst, tree: tree},
		{name: "gzip in several members", archive: join(gzipOf(one[:700]), gzipOf(nil), gzipOf(one[700:])), tree: tree},
		{name: "xz in several streams with padding", archive: join(xzOf(t, one[:700]), make([]byte, 8), xzOf(t, one[700:]), make([]byte, 4)), tree: tree},
		{name: "zstd in several frames", archive: join(zstdOf(t, one[:700]), []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), zstdOf(t, one[700:])), tree: tree},
		{name: "zstd behind a skippable frame", archive: join([]byte("\x5f\x2a\x4d\x18\x01\x00\x00\x00a"), zst), tree: tree},
		{name: "gzip padded with zeros", archive: join(gz, make([]byte, 1000)), tree: tree},
		{name: "a second archive in a second gzip member", archive: join(gz, gzipOf(tarOf(file("hidden", "x")))), rule: extract.RuleTrailingData},
		{name: "garbage behind gzip", archive: join(gz, []byte("garbage")), rule: extract.RuleTrailingData},
		{name: "garbage behind zeros behind gzip", archive: join(gz, make([]byte, 100), []byte("garbage")), rule: extract.RuleTrailingData},
		{name: "a member behind zeros behind gzip", archive: join(gz, make([]byte, 100), gz), rule: extract.RuleTrailingData},
		{name: "garbage behind xz", archive: join(xz, []byte("garbage and more")), rule: extract.RuleTrailingData},
		{name: "garbage behind zstd", archive: join(zst, []byte("garbage and more")), rule: extract.RuleCorrupt},
		{name: "gzip cut short", archive: gz[:len(gz)/2], rule: extract.RuleTruncated},
		{name: "gzip without its checksum", archive: gz[:len(gz)-8], rule: extract.RuleTruncated},
		{name: "gzip cut in its header", archive: gz[:5], rule: extract.RuleTruncated},
		{name: "xz cut short", archive: xz[:len(xz)/2], rule: extract.RuleTruncated},
		{name: "xz without its index", archive: xz[:len(xz)-28], rule: extract.RuleTruncated},
		{name: "zstd cut short", archive: zst[:len(zst)/2], rule: extract.RuleTruncated},
		{name: "gzip with a wrong checksum", archive: flip(gz, -8), rule: extract.RuleChecksum},
		{name: "gzip with a wrong length", archive: flip(gz, -1), rule: extract.RuleChecksum},
		{name: "xz with a wrong index", archive: flip(xz, -20), rule: extract.RuleCorrupt},
		{name: "xz with a wrong footer", archive: flip(xz, -12), rule: extract.RuleChecksum},
		{name: "zstd with a wrong checksum", archive: flip(zst, -1), rule: extract.RuleChecksum},
		{name: "gzip that does not decode", archive: join(gz[:10], []byte{0xff, 0xff, 0xff, 0xff}), rule: extract.RuleCorrupt},
		{name: "xz that asks for 4 GiB", archive: xzWithDictionary(xz, 40), rule: extract.RuleLimitWindow},
		{name: "xz that asks for 96 MiB", archive: xzWithDictionary(xz, 29), rule: extract.RuleLimitWindow},
		{name: "xz that asks for 64 MiB", archive: xzWithDictionary(xz, 28), tree: tree},
		{name: "zstd that asks for 2 TiB", archive: zstdWithWindow(41), rule: extract.RuleLimitWindow},
		{name: "zstd that asks for 128 MiB", archive: zstdWithWindow(27), rule: extract.RuleLimitWindow},
		{name: "a gzip bomb", archive: gzipOf(zeros), rule: extract.RuleLimitRatio, entry: "z"},
		{name: "an xz bomb", archive: xzOf(t, zeros), rule: extract.RuleLimitRatio},
		{name: "a zstd bomb", archive: zstdOf(t, zeros), rule: extract.RuleLimitRatio},
		{name: "a bomb behind the end marker", archive: gzipOf(append(one, make([]byte, 24<<20)...)), rule: extract.RuleLimitRatio},
		{name: "a file of zeros below the floor", archive: gzipOf(tarOf(file("z", strings.Repeat("\x00", 4<<20)))), tree: map[string]string{"z": strings.Repeat("\x00", 4<<20)}},
		{name: "headers without end", archive: headersOnly(3000), policy: func(p *wire.ExtractPolicy) { p.MaxBytes, p.MaxEntries = 1000, 10 }, rule: extract.RuleLimitStream},
		{name: "a gzip in a gzip", archive: gzipOf(gz), rule: extract.RuleUnknownFormat},
		{name: "a text in a gzip", archive: gzipOf([]byte("hello")), rule: extract.RuleUnknownFormat},
		{name: "nothing in a gzip", archive: gzipOf(nil), rule: extract.RuleUnknownFormat},
		{name: "an ar in a gzip", archive: gzipOf(arOf([2]string{"a", "x"})), rule: extract.RuleUnknownFormat},
		{name: "a zip in a gzip", archive: gzipOf(zipOf(rawZip{name: "a", content: "x"})), rule: extract.RuleUnknownFormat},
	})
}

// headersOnly is a tar of long names that belong to one entry only at the end.
func headersOnly(n int) []byte {
	headers := []rawTar{{name: "x", kind: 'x', content: strings.Repeat(paxRecords("comment="+strings.Repeat("c", 90)), n)}}
	return tarOf(append(headers, file("a", "x"))...)
}

func TestFormatsAreToldByContent(t *testing.T) {
	one := tarOf(file("a", "x"))
	zip := zipOf(rawZip{name: "a", content: "x"})
	runAttacks(t, []attack{
		{name: "text", archive: []byte("#!/bin/sh\necho hello\n"), rule: extract.RuleUnknownFormat},
		{name: "random bytes", archive: bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 300), rule: extract.RuleUnknownFormat},
		{name: "one byte", archive: []byte{0x1f}, rule: extract.RuleUnknownFormat},
		{name: "7z", archive: []byte("7z\xbc\xaf\x27\x1c\x00\x04 and so on"), rule: extract.RuleUnsupportedFormat},
		{name: "rar", archive: []byte("Rar!\x1a\x07\x01\x00 and so on"), rule: extract.RuleUnsupportedFormat},
		{name: "cpio", archive: []byte("070701 and so on"), rule: extract.RuleUnsupportedFormat},
		{name: "a zip at the end of a tar", archive: append(tarOf(file("a", "x")), zip...), rule: extract.RulePolyglot},
		{name: "a zip at the end of a gzip", archive: append(gzipOf(one), zip...), rule: extract.RulePolyglot},
		{name: "a zip hidden in a gzip's header", archive: gzipWithExtra(one, zip), rule: extract.RulePolyglot},
		{name: "a tar header that begins as a zip", archive: tarOf(file("PK\x03\x04", "x")), rule: extract.RulePolyglot},
		{name: "an ar", archive: arOf([2]string{"debian-binary", "2.0\n"}, [2]string{"odd/", "x"}), tree: map[string]string{"debian-binary": "2.0\n", "odd": "x"}},
		{name: "an ar with a name table", archive: arOf([2]string{"//", "x"}), rule: extract.RuleArHeader},
		{name: "an ar with a BSD name", archive: arOf([2]string{"#1/4", "nameX"}), rule: extract.RuleArHeader},
		{name: "an ar that is cut in a header", archive: arOf([2]string{"a", "xx"})[:40], rule: extract.RuleTruncated},
		{name: "an ar that is cut in a member", archive: arOf([2]string{"a", "xxxx"})[:70], rule: extract.RuleTruncated, entry: "a"},
		{name: "an ar with a bad size", archive: bytes.Replace(arOf([2]string{"a", "x"}), []byte("1         `"), []byte("-1        `"), 1), rule: extract.RuleArHeader},
		{name: "an ar and nothing in it", archive: []byte("!<arch>\n"), rule: extract.RuleEmpty},
		{name: "an ar member that climbs", archive: arOf([2]string{"../x", "x"}), rule: extract.RuleNameTraversal},
	})
}

// gzipWithExtra is a gzip whose header's extra field holds a zip, so that the
// end record is within reach of a reader that looks for it.
func gzipWithExtra(b, extra []byte) []byte {
	gz := gzipOf(b)
	gz[3] |= 4
	head := append(bytes.Clone(gz[:10]), byte(len(extra)), byte(len(extra)>>8))
	return join(head, extra, gz[10:])
}

func TestANestedArchiveIsUnpackedAndRemoved(t *testing.T) {
	gem := tarOf(file("metadata.gz", string(gzipOf([]byte("name: x")))), file("data.tar.gz", string(gzipOf(tarOf(file("lib/x.rb", "puts 1"))))))
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(gem, "gem", wire.Nested{Member: "data.tar.gz", Into: wire.MustRelPath("data")}); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("gem"), map[string]string{
		"metadata.gz": string(gzipOf([]byte("name: x"))), "data": "/", "data/lib": "/", "data/lib/x.rb": "puts 1",
	})
	if got := r.x.Report(); got.Archives != 2 || got.Entries != 3 {
		t.Errorf("counted %d archives and %d entries, want 2 and 3", got.Archives, got.Entries)
	}
}

func TestADebIsUnpackedWhateverItsMembersAreCompressedWith(t *testing.T) {
	data := tarOf(folder("./"), file("./usr/bin/x", "#!"), symlink("./usr/bin/y", "x"))
	for name, member := range map[string][]byte{"data.tar.gz": gzipOf(data), "data.tar.xz": xzOf(t, data), "data.tar.zst": zstdOf(t, data), "data.tar": data} {
		r := newRoom(t, wire.DefaultExtractPolicy())
		deb := arOf([2]string{"debian-binary", "2.0\n"}, [2]string{name, string(member)})
		if err := r.unpack(deb, "deb", wire.Nested{Member: "data.tar*", Into: wire.MustRelPath("root")}); err != nil {
			t.Fatal(name, err)
		}
		compareTrees(t, r.tree("deb/root"), map[string]string{"usr": "/", "usr/bin": "/", "usr/bin/x": "#!", "usr/bin/y": "-> x"})
	}
}

func TestBothOfTwoInnerArchivesOfOneNameAreUnpacked(t *testing.T) {
	gem := tarOf(file("data.tar.gz", string(gzipOf(tarOf(file("a", "1"))))), file("data.tar.gz", string(gzipOf(tarOf(file("a", "2"))))))
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(gem, "gem", wire.Nested{Member: "data.tar.gz", Into: wire.MustRelPath("data")}); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("gem"), map[string]string{"data": "/", "data/a": "1", "data/a~2": "2"})
}

func TestAMissingOrHostileInnerArchiveIsRefused(t *testing.T) {
	nested := wire.Nested{Member: "data.tar.gz", Into: wire.MustRelPath("data")}
	for name, c := range map[string]struct {
		archive []byte
		rule    string
	}{
		"missing":     {tarOf(file("other", "x")), extract.RuleNestedMissing},
		"a directory": {tarOf(folder("data.tar.gz")), extract.RuleNestedMissing},
		"a link":      {tarOf(symlink("data.tar.gz", "x"), file("x", "y")), extract.RuleNestedMissing},
		"no archive":  {tarOf(file("data.tar.gz", "text")), extract.RuleUnknownFormat},
		"climbs":      {tarOf(file("data.tar.gz", string(tarOf(file("../x", "y"))))), extract.RuleNameTraversal},
		"through a link of the outer one": {
			tarOf(symlink("data", "."), file("data.tar.gz", string(tarOf(file("x", "y"))))), extract.RuleTypeClash,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusal(t, newRoom(t, wire.DefaultExtractPolicy()).unpack(c.archive, "gem", nested)); got.Rule != c.rule {
				t.Errorf("refused by %q (%s), want %q", got.Rule, got.Detail, c.rule)
			}
		})
	}
}

func TestLimitsSumOverAllArchivesOfARun(t *testing.T) {
	policy := wire.DefaultExtractPolicy()
	policy.MaxBytes, policy.MaxEntries = 8, 3
	r := newRoom(t, policy)
	if err := r.unpack(tarOf(file("a", "12345")), "one"); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, r.unpack(tarOf(file("a", "1234")), "two")); got.Rule != extract.RuleLimitBytes {
		t.Errorf("refused by %q, want the bytes of both", got.Rule)
	}
}

func TestArchivesInOneDirectoryClashAsEntriesOfOneDo(t *testing.T) {
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(file("d/a", "1"), symlink("l", "d")), "pkg"); err != nil {
		t.Fatal(err)
	}
	if err := r.unpack(tarOf(file("d/A", "2"), file("d/a", "3")), "pkg"); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("pkg"), map[string]string{"d": "/", "d/a": "1", "d/A~2": "2", "d/a~3": "3", "l": "-> d"})
	if got := refusal(t, r.unpack(tarOf(file("l/x", "4")), "pkg")); got.Rule != extract.RuleThroughSymlink {
		t.Errorf("refused by %q", got.Rule)
	}
}

func TestALinkOfAnEarlierArchiveCannotBeBentByALaterOne(t *testing.T) {
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(symlink("e", "d/../canary")), "."); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, r.unpack(tarOf(symlink("d", ".")), ".")); got.Rule != extract.RuleSymlinkOutside {
		t.Errorf("refused by %q", got.Rule)
	}
}

func TestWhatNoArchiveMadeIsNeverReplacedOrLinked(t *testing.T) {
	for _, clash := range []wire.Clash{wire.ClashKeep, wire.ClashReplace} {
		policy := wire.DefaultExtractPolicy()
		policy.Duplicates = clash
		r := newRoom(t, policy)
		for _, name := range []string{"manifest.json", "input"} {
			if err := os.WriteFile(r.work+"/"+name, []byte("ours"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := r.unpack(tarOf(file("manifest.json", "forged"), file("tmp/x", "y"), file("input", "theirs"), file("input/z", "w"), hardlink("h", "input")), ".")
		if err != nil {
			t.Fatal(err)
		}
		got := r.tree(".")
		if got["manifest.json"] != "ours" || got["input"] != "ours" || got["manifest~2.json"] != "forged" || got["tmp~2/x"] != "y" || got["h"] != "theirs" {
			t.Errorf("with %q the tree is %q", clash, got)
		}
	}
	policy := wire.DefaultExtractPolicy()
	policy.Duplicates = wire.ClashRefuse
	r := newRoom(t, policy)
	if err := os.WriteFile(r.work+"/input", []byte("ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, r.unpack(tarOf(file("input", "theirs")), ".")); got.Rule != extract.RuleDuplicate {
		t.Errorf("refused by %q", got.Rule)
	}
}

func TestOnlyTheFirstNotesAreNamedAndAllAreCounted(t *testing.T) {
	headers := []rawTar{}
	for range 3 * wire.NoteCountCap {
		headers = append(headers, file("same\n"+strings.Repeat("<&>", 60), "x"))
	}
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(headers...), "pkg"); err != nil {
		t.Fatal(err)
	}
	got := r.x.Report()
	if len(got.Notes) != wire.NoteCountCap || got.Renamed != 6*wire.NoteCountCap-1 || got.Files != 3*wire.NoteCountCap {
		t.Errorf("%d notes, %d renamed, %d files", len(got.Notes), got.Renamed, got.Files)
	}
	result := &wire.Result{Wire: wire.Version, Agent: "test", Ending: wire.EndExited, Status: ptr(0), Extraction: got}
	if _, _, err := wire.EncodeResult(result, nil, wire.NewSealKey(), nil); err != nil {
		t.Errorf("the notes do not fit a result: %v", err)
	}
}

func TestADeclaredSizeCostsNoMemory(t *testing.T) {
	archives := map[string][]byte{
		"tar":     tarOf(rawTar{name: "f", kind: '0', declared: 100 << 30}),
		"pax":     tarOf(pax("size=107374182400"), rawTar{name: "f", kind: '0'}),
		"gnu":     tarOf(rawTar{name: "f", kind: 'L', declared: 100 << 30}),
		"zip":     zipOf(rawZip{name: "f", content: "x", method: 8, size: ptr(uint32(1<<32 - 2))}),
		"count":   zipWith(zipOptions{count: ptr(uint16(65534))}, rawZip{name: "f"}),
		"xz":      xzWithDictionary(xzOf(t, tarOf(file("a", "x"))), 40),
		"zstd":    zstdWithWindow(41),
		"tar.zst": zstdOf(t, tarOf(rawTar{name: "f", kind: '0', declared: 100 << 30})),
	}
	for name, archive := range archives {
		policy := wire.DefaultExtractPolicy()
		policy.MaxEntries = 1 << 20
		r := newRoom(t, policy)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := r.unpack(archive, "pkg")
		runtime.ReadMemStats(&after)
		refusal(t, err)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", name, used)
		}
	}
}

func TestACancelledRunEndsInsideOneMember(t *testing.T) {
	policy := wire.DefaultExtractPolicy()
	policy.MaxBytes, policy.MaxFileBytes, policy.MaxRatio = 1<<45, 1<<45, 1<<30
	block := gzipOf(make([]byte, 16<<20))
	header := rawTar{name: "endless", kind: '0', declared: 1 << 40}.bytes()
	for name, archive := range map[string][]byte{
		"much comes out":    join(gzipOf(header), bytes.Repeat(block, 500)),
		"nothing comes out": bytes.Repeat(gzipOf(nil), 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			err := newRoom(t, policy).unpackContext(ctx, archive, "pkg")
			var r *extract.RefusalError
			if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &r) {
				t.Errorf("got %v, want the deadline and no refusal", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, archive := range map[string][]byte{"tar": tarOf(file("a", "x")), "zip": zipOf(rawZip{name: "a", content: "x"})} {
		if err := newRoom(t, policy).unpackContext(ctx, archive, "pkg"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the cancellation", name, err)
		}
	}
}

func TestAFaultOfTheMediumIsNoRefusal(t *testing.T) {
	r := newRoom(t, wire.DefaultExtractPolicy())
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	err = r.x.Archive(t.Context(), "in", f, wire.MustRelPath("pkg"), nil)
	var refused *extract.RefusalError
	if err == nil || errors.As(err, &refused) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want the closed file", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if err := r.x.Archive(t.Context(), "in", read, wire.MustRelPath("pkg"), nil); err == nil || errors.As(err, &refused) {
		t.Errorf("got %v, want a failure of ours", err)
	}
}
