package attack

import (
	"encoding/binary"
	"strings"
)

// tarCases are headers that two readers read in two ways.
func tarCases() []Case {
	smuggled := string(tarOpen(file("smuggled", "x")))
	return []Case{
		{
			ID: "E68", Name: "a PAX size beside another size in the header", Why: "One reader skips what the other takes for the next entry (CVE-2025-62518).",
			Archive: tar(pax("size=1024"), entry{name: "x", body: smuggled, size: of(int64(0))}), Refused: "tar-size",
		},
		{
			ID: "E69", Name: "a malformed PAX record", Why: "A reader that skips it in silence takes another name than one that does not.",
			Archive: tar(entry{name: "PaxHeaders/x", kind: 'x', body: "99 path=evil\n"}, file("x", "x")), Refused: "tar-pax",
		},
		{ID: "E70", Name: "a PAX key that is there twice", Why: "First or last: readers differ.", Archive: tar(pax("path=a", "path=b"), file("x", "x")), Refused: "tar-conflict"},
		{
			ID: "E71", Name: "a GNU long name and a PAX path", Why: "Two extended names for one entry, and readers take either.",
			Archive: tar(gnuLong('L', "gnu-name"), pax("path=pax-name"), file("x", "x")), Refused: "tar-conflict",
		},
		{ID: "E72", Name: "a GNU sparse file", Why: "Its map says where the bytes go, and readers disagree on it (CVE-2025-58183).", Archive: tar(entry{name: "x", kind: 'S', body: "x", raw: func(h []byte) { copy(h[257:265], "ustar  \x00") }}), Refused: "tar-sparse"},
		{ID: "E73", Name: "a PAX sparse file", Why: "The same in PAX records.", Archive: tar(pax("GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=y", "GNU.sparse.realsize=1000000000"), file("x", "x")), Refused: "tar-sparse"},
		{ID: "E74", Name: "a PAX global header with a comment", Why: "git archive writes one; it is left out and said so.", Archive: tar(paxGlobal("comment=0123456789"), file("package/a.txt", "hello\n")), Tree: hello, Notes: []string{"tar-global"}},
		{ID: "E75", Name: "a PAX global header with a path", Why: "It would rename every entry that follows, for some readers.", Archive: tar(paxGlobal("path=evil"), file("x", "x")), Refused: "tar-global"},
		{ID: "E76", Name: "a header with a wrong checksum", Why: "What is damaged is not guessed at.", Archive: tar(file("a", "a"), entry{name: "x", body: "x", badSum: true}), Refused: "tar-header"},
		{ID: "E77", Name: "a size that is no number", Why: "Readers make of it what they like.", Archive: tar(entry{name: "x", body: "x", sizeField: "0000000z001\x00"}), Refused: "tar-header"},
		{
			ID: "E78", Name: "a negative size", Why: "In base 256 a size can be less than nothing.",
			Archive: tar(entry{name: "x", body: "x", raw: func(h []byte) {
				for i := 124; i < 136; i++ {
					h[i] = 0xff
				}
			}}), Refused: "tar-header",
		},
		{
			ID: "E79", Name: "100 GiB declared", Why: "A size is refused before anything is allocated or written for it.",
			Archive: tar(entry{name: "x", body: "x", raw: func(h []byte) {
				clear(h[124:136])
				h[124] = 0x80
				binary.BigEndian.PutUint64(h[128:], 100<<30)
			}}), Refused: "limit-file-bytes",
		},
		{ID: "E80", Name: "a tar that ends in a file's middle", Why: "Half a file is not the file.", Archive: func() []byte { return tarOpen(file("x", lines(500)))[:1000] }, Refused: "truncated"},
		{
			ID: "E81", Name: "a second tar behind the first one's end", Why: "Readers that ignore the end see files that others do not.",
			Archive: func() []byte { return append(helloTar(), tarOf(file("hidden", "x"))...) }, Refused: "trailing-data",
		},
		{ID: "E82", Name: "a PAX header of 2 MiB", Why: "Metadata is kept in memory, and so bounded.", Archive: func() []byte { return tarOf(pax("comment="+strings.Repeat("c", 2<<20)), file("x", "x")) }, Refused: "limit-metadata"},
		{ID: "E83", Name: "an extended header without an entry", Why: "It speaks of an entry that is not there.", Archive: tar(file("a", "a"), pax("path=b")), Refused: "tar-conflict"},
		{
			ID: "E84", Name: "a hard link with content", Why: "One reader skips its content, another reads it as the next header.",
			Archive: tar(file("a", "a"), entry{name: "b", kind: '1', link: "a", body: smuggled}), Refused: "tar-size",
		},
		{ID: "E85", Name: "a symbolic link with content", Why: "The same with another type.", Archive: tar(entry{name: "b", kind: '2', link: "a", body: smuggled}), Refused: "tar-size"},
		{ID: "E86", Name: "a directory with content", Why: "The same with a directory.", Archive: tar(entry{name: "d/", kind: '5', body: smuggled}), Refused: "tar-size"},
	}
}

// streamCases are compressed streams and bytes that are no archive.
func streamCases() []Case {
	return []Case{
		{ID: "E87", Name: "nothing at all", Why: "An empty input is not an empty package.", Archive: func() []byte { return nil }, Refused: "empty"},
		{ID: "E88", Name: "a tar of no entries", Why: "An archive without entries hides what was meant.", Archive: func() []byte { return make([]byte, 10240) }, Refused: "empty"},
		{ID: "E89", Name: "noise", Why: "What is no archive is an answer about the artifact, and no crash.", Archive: func() []byte { return []byte(strings.Repeat("noise, no archive. ", 100)) }, Refused: "unknown-format"},
		{ID: "E90", Name: "a gzip of a text", Why: "A compressed stream that holds no tar is no package.", Archive: func() []byte { return gz([]byte(lines(500))) }, Refused: "unknown-format"},
		{ID: "E91", Name: "a 7z", Why: "What is recognised and not read is said to be so.", Archive: fixed(append([]byte("7z\xbc\xaf\x27\x1c\x00\x04"), make([]byte, 600)...)), Refused: "unsupported-format"},
		{ID: "E92", Name: "a rar", Why: "The same for another format.", Archive: fixed(append([]byte("Rar!\x1a\x07\x01\x00"), make([]byte, 600)...)), Refused: "unsupported-format"},
		{ID: "E93", Name: "a gzip that is cut off", Why: "The part that is missing may be the part that matters.", Archive: func() []byte { b := gz(helloTar()); return b[:len(b)-12] }, Refused: "truncated"},
		{ID: "E94", Name: "a gzip with a wrong checksum", Why: "What was stored is not what came out.", Archive: func() []byte { b := gz(helloTar()); b[len(b)-6] ^= 0xff; return b }, Refused: "checksum"},
		{
			ID: "E95", Name: "a gzip with a stream that does not decode", Why: "Damage is an answer about the artifact.",
			Archive: func() []byte {
				b := gz(tarOf(file("x", lines(2000))))
				copy(b[60:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
				return b
			}, Refused: "corrupt",
		},
		{ID: "E96", Name: "bytes behind a gzip", Why: "Some readers read on into them.", Archive: func() []byte { return append(gz(helloTar()), "and more"...) }, Refused: "trailing-data"},
		{ID: "E97", Name: "a gzip bomb", Why: "Much comes out of little, and is refused before most of it is written.", Archive: func() []byte { return gz(tarOf(file("bomb", strings.Repeat("\x00", 48<<20)))) }, Refused: "limit-ratio"},
		{ID: "E98", Name: "a bzip2 bomb", Why: "The same under another compressor.", Archive: func() []byte { return decoded(bombBzip2) }, Refused: "limit-ratio"},
		{
			ID: "E99", Name: "a zstd bomb", Why: "Four bytes make 128 KiB.",
			Archive: func() []byte { return zstdBomb(entry{name: "bomb", size: of(int64(64 << 20))}.header(), 64<<20) }, Refused: "limit-ratio",
		},
		{ID: "E100", Name: "a zstd window of 2 GiB", Why: "A window is memory that a decoder takes before the first byte.", Archive: zstdWindow, Refused: "limit-window"},
		{ID: "E101", Name: "an xz dictionary of 1.5 GiB", Why: "The same in xz.", Archive: func() []byte { return decoded(windowXZ) }, Refused: "limit-window"},
	}
}
