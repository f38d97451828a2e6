package attack

import (
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// zipCases are zips whose parts disagree.
func zipCases() []Case {
	return []Case{
		{ID: "E102", Name: "a local header with another name", Why: "Streaming readers take the local name and others the central one.", Archive: zip(member{name: "safe.txt", local: "evil.txt", body: "x"}), Refused: "zip-mismatch"},
		{ID: "E103", Name: "a local header with another size", Why: "The same with sizes.", Archive: zip(member{name: "a", body: "hello", localSize: of(uint32(3))}), Refused: "zip-mismatch"},
		{
			ID: "E104", Name: "members that share bytes", Why: "One kernel of data read many times: the best zip bombs are made so.",
			Archive: zip(member{name: "a", body: lines(100), deflate: true}, member{name: "a2", noLocal: true, at: of(uint32(0)), body: lines(100), deflate: true}), Refused: "zip-overlap",
		},
		{ID: "E105", Name: "an encrypted member", Why: "Nobody can look into it, and an installer with the password can.", Archive: zip(member{name: "a", body: "0123456789abc", flags: 1}), Refused: "encrypted"},
		{ID: "E106", Name: "a member with a wrong checksum", Why: "What was stored is not what comes out.", Archive: zip(member{name: "a", body: "hello", crc: of(uint32(1))}), Refused: "checksum"},
		{
			ID: "E107", Name: "two ends", Why: "The first end record and the last one name two directories, and readers take either.",
			Archive: func() []byte {
				inner := archive{members: []member{{name: "hidden", body: "x"}}}.bytes()
				return archive{members: []member{{name: "a", body: "a"}}, comment: string(inner)}.bytes()
			}, Refused: "zip-prefix",
		},
		{ID: "E108", Name: "data before the first member", Why: "A self-extracting program, and another archive to some readers.", Archive: func() []byte {
			return append([]byte("MZ this is a program"), archive{members: []member{{name: "a", body: "a"}}}.bytes()...)
		}, Refused: "zip-prefix"},
		{
			ID: "E109", Name: "data between members", Why: "A streaming reader finds a member there that the directory does not name.",
			Archive: zip(member{name: "a", body: "a"}, member{name: "b", body: "b", before: hiddenMember()}), Refused: "zip-gap",
		},
		{ID: "E110", Name: "no end at all", Why: "Streaming readers unpack it and others do not.", Archive: archive{members: []member{{name: "a", body: "a"}}, noEnd: true}.make(), Refused: "truncated"},
		{ID: "E111", Name: "data behind the end", Why: "Which end is the end depends on the reader.", Archive: archive{members: []member{{name: "a", body: "a"}}, suffix: "behind"}.make(), Refused: "trailing-data"},
		{ID: "E112", Name: "more entries claimed than there are", Why: "65,535 entries in a directory of one made readers allocate for all (CVE-2021-39293).", Archive: archive{members: []member{{name: "a", body: "a"}}, count: of(uint16(5000))}.make(), Refused: "zip-directory"},
		{ID: "E113", Name: "a directory that is elsewhere", Why: "An offset that leads into a member reads its content as names.", Archive: archive{members: []member{{name: "a", body: lines(40)}}, directory: of(uint32(3))}.make(), Refused: "zip-prefix"},
		{ID: "E114", Name: "a member longer than it says", Why: "More comes out than was declared and looked at.", Archive: zip(member{name: "a", body: lines(500), deflate: true, size: of(uint32(10))}), Refused: "zip-size"},
		{ID: "E115", Name: "a method that nobody reads", Why: "What can't be unpacked can't be scanned.", Archive: zip(member{name: "a", body: "a", method: of(uint16(97))}), Refused: "unsupported-method"},
		{ID: "E116", Name: "a deflate bomb", Why: "A thousand to one is what deflate can do.", Archive: func() []byte { return zip(member{name: "bomb", body: strings.Repeat("\x00", 48<<20), deflate: true})() }, Refused: "limit-ratio"},
		{ID: "E117", Name: "a zip that is cut off", Why: "The directory is at the end, and is missing.", Archive: func() []byte { b := zip(member{name: "a", body: lines(100)})(); return b[:len(b)/2] }, Refused: "truncated"},
		{
			ID: "E118", Name: "a zip in a zip", Why: "An inner archive is a file unless the manifest asks for more: nothing is unpacked without end.",
			Archive: func() []byte { return zip(member{name: "inner.zip", body: innerZip()})() }, Tree: map[string]Node{"inner.zip": File(innerZip())},
		},
		{ID: "E119", Name: "a tar that is a zip", Why: "Two readers, two archives.", Archive: func() []byte {
			inner := archive{members: []member{{name: "hidden", body: "x"}}}.bytes()
			return append(tarOf(file("a", "a")), inner...)
		}, Refused: "polyglot"},
	}
}

func innerZip() string { return string(archive{members: []member{{name: "x", body: "x"}}}.bytes()) }

// hiddenMember is a local header with its data, which no directory names.
func hiddenMember() string {
	b := archive{members: []member{{name: "hidden", body: "x"}}, noEnd: true}.bytes()
	return string(b[:30+len("hidden")+1])
}

// limitCases pass one limit each by a little.
func limitCases() []Case {
	limit := func(change func(*wire.ExtractPolicy)) func(*wire.ExtractPolicy) { return change }
	three := tar(file("a", "1"), file("b", "2"), file("c", "3"))
	return []Case{
		{
			ID: "E120", Name: "as many entries as allowed", Why: "A limit is what may be used in full.", Archive: three, Policy: limit(func(p *wire.ExtractPolicy) { p.MaxEntries = 3 }),
			Tree: map[string]Node{"a": File("1"), "b": File("2"), "c": File("3")},
		},
		{ID: "E121", Name: "one entry too many", Why: "Entries cost whoever walks them.", Archive: three, Policy: limit(func(p *wire.ExtractPolicy) { p.MaxEntries = 2 }), Refused: "limit-entries"},
		{ID: "E122", Name: "one byte too many in all", Why: "The sum is what fills a disk.", Archive: three, Policy: limit(func(p *wire.ExtractPolicy) { p.MaxBytes = 2 }), Refused: "limit-bytes"},
		{ID: "E123", Name: "one byte too many in a file", Why: "One file is what fills a scanner's memory.", Archive: tar(file("a", "12345")), Policy: limit(func(p *wire.ExtractPolicy) { p.MaxFileBytes = 4 }), Refused: "limit-file-bytes"},
		{ID: "E124", Name: "zip: one entry too many", Why: "The same limit in the other format.", Archive: zip(member{name: "a", body: "1"}, member{name: "b", body: "2"}, member{name: "c", body: "3"}), Policy: limit(func(p *wire.ExtractPolicy) { p.MaxEntries = 2 }), Refused: "limit-entries"},
		{ID: "E125", Name: "directories that no entry names", Why: "One entry makes many directories.", Archive: tar(file("a/b/c/d/e/f", "x")), Policy: limit(func(p *wire.ExtractPolicy) { p.MaxEntries = 3 }), Refused: "limit-entries"},
	}
}

// nestedCases are archives in archives that the manifest asks for.
func nestedCases() []Case {
	gem := func() []byte {
		return tarOf(file("metadata.gz", string(gz([]byte("name: x\n")))), file("data.tar.gz", string(gz(tarOf(file("lib/x.rb", "x"))))))
	}
	deb := func(inner []byte) []byte {
		return arOf([2]string{"debian-binary", "2.0\n"}, [2]string{"control.tar.gz", string(gz(tarOf(file("./control", "Package: x\n"))))}, [2]string{"data.tar.gz", string(gz(inner))})
	}
	data := []wire.Nested{{Member: "data.tar.*", Into: wire.MustRelPath("data")}}
	control := string(gz(tarOf(file("./control", "Package: x\n"))))
	return []Case{
		{
			ID: "E126", Name: "a gem", Why: "A gem is a tar of archives, and what matters is in the inner one.", Archive: gem, Nested: data,
			Tree: map[string]Node{"metadata.gz": File(string(gz([]byte("name: x\n")))), "data": Dir(), "data/lib": Dir(), "data/lib/x.rb": File("x")},
		},
		{
			ID: "E127", Name: "a deb", Why: "A deb is an ar of archives.", Archive: func() []byte { return deb(tarOf(file("./usr/bin/x", "x"))) }, Nested: data,
			Tree: map[string]Node{"debian-binary": File("2.0\n"), "control.tar.gz": File(control), "data": Dir(), "data/usr": Dir(), "data/usr/bin": Dir(), "data/usr/bin/x": File("x")},
		},
		{ID: "E128", Name: "a deb whose data climbs out", Why: "An inner archive is as hostile as an outer one.", Archive: func() []byte { return deb(tarOf(file("../../evil", "x"))) }, Nested: data, Refused: "name-traversal"},
		{ID: "E129", Name: "a gem without its data", Why: "What the manifest asks for and is not there would be a scan of nothing.", Archive: tar(file("metadata.gz", "x")), Nested: data, Refused: "nested-missing"},
		{ID: "E130", Name: "an ar with a malformed header", Why: "What is damaged is not guessed at.", Archive: func() []byte { b := arOf([2]string{"a", "hello"}); copy(b[8+48:], "notanumber"); return b }, Refused: "ar-header"},
	}
}
