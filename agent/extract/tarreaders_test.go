package extract_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// with changes the finished header once more.
func (h rawTar) with(change func(b []byte)) rawTar {
	before := h.change
	h.change = func(b []byte) {
		if before != nil {
			before(b)
		}
		change(b)
	}
	return h
}

func at(offset int, text string) func([]byte) {
	return func(b []byte) { copy(b[offset:], text) }
}

// What npm's, pip's and cargo's readers take for something else than the
// others do: each was seen to hide a file from one of them.
func TestATarThatAnInstallerReadsOtherwiseIsRefused(t *testing.T) {
	hidden := string(file("hidden", "x").bytes())
	inner := strings.TrimSuffix(paxRecords("path=hidden.js"), "\n")
	global := func(records ...string) rawTar {
		return rawTar{name: "pax_global_header", kind: 'g', content: paxRecords(records...)}
	}
	a := file("a", "x")
	b := file("b", hidden)
	runAttacks(t, []attack{
		{name: "a record within a comment", archive: tarOf(pax("comment=a\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a record within an attribute", archive: tarOf(pax("SCHILY.xattr.user.a=a\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a record within an encoded attribute", archive: tarOf(pax("LIBARCHIVE.xattr.a=a\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a record within a global comment", archive: tarOf(global("comment=a\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a size within a global comment", archive: tarOf(global("comment=a\n9 size=0"), b), rule: extract.RuleTarPAX},
		{name: "a record within a key", archive: tarOf(pax("k\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a newline in a path", archive: tarOf(pax("path=a\n"+inner), a), rule: extract.RuleTarPAX},
		{name: "a newline in a user's name", archive: tarOf(pax("uname=a\n"), a), rule: extract.RuleTarPAX},
		{name: "a NUL in a user's name", archive: tarOf(pax("uname=a\x00b"), a), rule: extract.RuleTarPAX},
		{name: "a control character in a key", archive: tarOf(pax("pa\x01th=b"), a), rule: extract.RuleTarPAX},
		{name: "a record without a key", archive: tarOf(pax("=b"), a), rule: extract.RuleTarPAX},
		{name: "a PAX path that is not UTF-8", archive: tarOf(pax("path=b\xff"), a), rule: extract.RuleTarPAX},
		{name: "a PAX target that is not UTF-8", archive: tarOf(pax("linkpath=b\xff"), symlink("l", "a")), rule: extract.RuleTarPAX},
		{name: "a user's name that is not UTF-8", archive: tarOf(pax("uname=b\xff"), a), tree: map[string]string{"a": "x"}},
		{
			name: "attributes of any bytes", archive: tarOf(pax("SCHILY.xattr.security.capability=\x01\x00\x00\x02\x00\n\x00\x00"), a),
			tree: map[string]string{"a": "x"},
		},
		{name: "a global header before a PAX header's entry", archive: tarOf(pax("path=b"), global("comment=c"), a), rule: extract.RuleTarConflict},
		{name: "a global header before a GNU name's entry", archive: tarOf(gnuName('L', "b"), global("comment=c"), a), rule: extract.RuleTarConflict},

		{name: "a prefix in the oldest format", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p", magic: "\x00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "a prefix behind a magic alone", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p", magic: "ustar\x00\x00\x00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "a prefix in another version", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p", magic: "ustar\x0001", content: "x"}), rule: extract.RuleTarHeader},
		{name: "a prefix behind a magic with a space", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p", magic: "ustar 00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "times in a GNU header", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "14000000000\x0014000000000\x00", magic: "ustar  \x00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "another version without a prefix", archive: tarOf(rawTar{name: "f", kind: '0', magic: "ustar\x00\x00\x00", content: "x"}), tree: map[string]string{"f": "x"}},
		{name: "a prefix that goes on", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p\x00\nq", content: "x"}), rule: extract.RuleNameNUL},
		{name: "times behind a prefix", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "p", content: "x"}.with(at(476, "14000000000\x0014000000000\x00"))), tree: map[string]string{"p": "/", "p/f": "x"}},
		{name: "a prefix of 155", archive: tarOf(rawTar{name: "f", kind: '0', prefix: strings.Repeat("p", 155), content: "x"}), tree: map[string]string{strings.Repeat("p", 155): "/", strings.Repeat("p", 155) + "/f": "x"}},
		{name: "a name that goes on behind its end", archive: tarOf(file("a\x00\nb", "x")), rule: extract.RuleNameNUL},
		{name: "a target that goes on behind its end", archive: tarOf(a, hardlink("h", "a\x00\nb")), rule: extract.RuleNameNUL},

		{name: "a checksum of signed bytes", archive: tarOf(rawTar{name: "caf\u00e9", kind: '0', content: hidden}.with(signedSum)), rule: extract.RuleTarHeader},
		{name: "a checksum without an end", archive: tarOf(file("f", hidden).with(longSum)), rule: extract.RuleTarHeader},
		{name: "a file with a target", archive: tarOf(rawTar{name: "f", kind: '0', link: "g", content: hidden}), rule: extract.RuleTarHeader},
		{name: "a directory with a target", archive: tarOf(rawTar{name: "f/", kind: '5', link: "g"}), rule: extract.RuleTarHeader},
		{name: "a GNU name with a target", archive: tarOf(rawTar{name: "l", link: "g", kind: 'L', content: "f\x00"}, a), rule: extract.RuleTarHeader},
		{name: "a GNU name without a name", archive: tarOf(rawTar{kind: 'L', content: "f\x00"}, a), rule: extract.RuleTarHeader},
		{name: "a PAX header without a name", archive: tarOf(rawTar{kind: 'x', content: paxRecords("path=f")}, a), rule: extract.RuleTarHeader},
		{name: "a global header without a name", archive: tarOf(rawTar{kind: 'g', content: paxRecords("comment=f")}, a), rule: extract.RuleTarHeader},
		{name: "a directory without a name", archive: tarOf(pax("size=0"), folder(""), b), rule: extract.RuleNameEmpty},
		{name: "a file without a name", archive: tarOf(file("", hidden)), rule: extract.RuleNameEmpty},
		{name: "a link with a PAX target alone", archive: tarOf(pax("path=b", "linkpath=c"), symlink("l", ""), a), rule: extract.RuleTarConflict},
		{name: "a user in base 256 that is none", archive: tarOf(b.with(at(108, "\x81\x00\x00\x00\x00\x00\x00\x01"))), rule: extract.RuleTarHeader},
		{name: "a group over 53 bits", archive: tarOf(b.with(at(116, "\x80\x20\x00\x00\x00\x00\x00\x00"))), rule: extract.RuleTarHeader},
		{name: "a time over 53 bits", archive: tarOf(b.with(at(136, "\x80\x00\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00"))), rule: extract.RuleTarHeader},
		{name: "a mode in base 256 that is none", archive: tarOf(b.with(at(100, "\xc0\x00\x00\x00\x00\x00\x00\x01"))), rule: extract.RuleTarHeader},
		{name: "a device number in base 256 that is none", archive: tarOf(b.with(at(329, "\x81\x00\x00\x00\x00\x00\x00\x01"))), rule: extract.RuleTarHeader},
		{name: "a time of access in base 256 that is none", archive: tarOf(b.with(at(476, "\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"))), rule: extract.RuleTarHeader},
		{
			name:    "a large user and a time before 1970",
			archive: tarOf(a.with(at(108, "\x80\x00\x00\x00\x7f\xff\xff\xff")).with(at(136, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"))),
			tree:    map[string]string{"a": "x"},
		},
		{name: "a directory in its own header and a file in PAX", archive: tarOf(pax("path=f"), rawTar{name: "f/", content: hidden}), rule: extract.RuleTypeAmbiguous},

		{
			name:    "a long name that is cut off at a slash",
			archive: tarOf(gnuName('L', strings.Repeat("n", 99)+"/f"), file(strings.Repeat("n", 99)+"/", "x"), pax("path=d/g"), file("d/", "y")),
			tree:    map[string]string{strings.Repeat("n", 99): "/", strings.Repeat("n", 99) + "/f": "x", "d": "/", "d/g": "y"},
		},

		{name: "a drive behind the first component", archive: tarOf(file("package/c:/package.json", "x")), rule: extract.RuleNameAbsolute},
		{name: "a drive deep down", archive: tarOf(file("package/a/b/C:/x", "x")), rule: extract.RuleNameAbsolute},
		{name: "a name relative to a drive", archive: tarOf(file("package/c:index.js", "x")), rule: extract.RuleNameAbsolute},
		{name: "a first component relative to a drive", archive: tarOf(file("c:package/index.js", "x")), rule: extract.RuleNameAbsolute},
		{name: "a drive behind slashes that say nothing", archive: tarOf(file("package//./c:x", "x")), rule: extract.RuleNameAbsolute},
		{name: "a device path", archive: tarOf(file("package///?/gone/index.js", "x")), rule: extract.RuleNameAbsolute},
		{
			name: "a manual with a colon", archive: tarOf(file("./usr/share/man/man3/B::Name.3pm", "x")),
			tree: map[string]string{"usr": "/", "usr/share": "/", "usr/share/man": "/", "usr/share/man/man3": "/", "usr/share/man/man3/B::Name.3pm": "x"},
		},
		{
			name: "one place for npm", archive: tarOf(file("package/package.json", "1"), file("zz/package.json", "2"), file("zz/other", "3")),
			tree:  map[string]string{"package": "/", "package/package.json": "1", "zz": "/", "zz/package.json": "2", "zz/other": "3"},
			notes: []string{"strip-clash noted"},
		},
		{
			name: "one place for npm, by letter case and a dot", archive: tarOf(file("package/README", "1"), file("./readme", "2"), symlink("y/Readme", "x")),
			tree:  map[string]string{"package": "/", "package/README": "1", "readme": "2", "y": "/", "y/Readme": "-> x"},
			notes: []string{"strip-clash noted", "strip-clash noted"},
		},
		{name: "two top directories", archive: tarOf(file("bin/a", "1"), file("lib/b", "2"), file("c", "3"), file("d", "4")), tree: map[string]string{"bin": "/", "bin/a": "1", "lib": "/", "lib/b": "2", "c": "3", "d": "4"}},
	})
}

func signedSum(b []byte) {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(int8(c))
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// longSum fills the checksum's field with digits to its end.
func longSum(b []byte) {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%08o", sum))
}

// noise does not compress.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		b.Write(sum[:])
	}
	return b.String()[:n]
}

func TestGrowthIsJudgedWhateverTheOrderOfTheFiles(t *testing.T) {
	zeros, some, little := strings.Repeat("\x00", 12<<20), noise(3<<20), noise(30<<10)
	archives := map[string]func(z, r string) []byte{
		"tar.gz":  func(z, r string) []byte { return gzipOf(tarOf(file(z[:1], z[1:]), file(r[:1], r[1:]))) },
		"tar.xz":  func(z, r string) []byte { return xzOf(t, tarOf(file(z[:1], z[1:]), file(r[:1], r[1:]))) },
		"tar.zst": func(z, r string) []byte { return zstdOf(t, tarOf(file(z[:1], z[1:]), file(r[:1], r[1:]))) },
		"zip": func(z, r string) []byte {
			return zipOf(rawZip{name: z[:1], content: z[1:], method: 8}, rawZip{name: r[:1], content: r[1:], method: 8})
		},
	}
	for format, pack := range archives {
		for order, archive := range map[string][]byte{"zeros first": pack("z"+zeros, "r"+some), "zeros last": pack("r"+some, "z"+zeros)} {
			t.Run(format+" "+order, func(t *testing.T) {
				r := newRoom(t, wire.DefaultExtractPolicy())
				if err := r.unpack(archive, "pkg"); err != nil {
					t.Fatal(err)
				}
				compareTrees(t, r.tree("pkg"), map[string]string{"z": zeros, "r": some})
			})
		}
		for order, archive := range map[string][]byte{"zeros first": pack("z"+zeros, "r"+little), "zeros last": pack("r"+little, "z"+zeros)} {
			t.Run(format+" bomb "+order, func(t *testing.T) {
				r := newRoom(t, wire.DefaultExtractPolicy())
				if got := refusal(t, r.unpack(archive, "pkg")); got.Rule != extract.RuleLimitRatio {
					t.Errorf("refused by %q (%s)", got.Rule, got.Detail)
				}
			})
		}
	}
}

func TestAnOptionalInnerArchiveMayBeMissingAndIsUnpackedWhereItIsNot(t *testing.T) {
	nested := wire.Nested{Member: "data.tar.gz", Into: wire.MustRelPath("data"), Optional: true}
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(file("package/a", "x")), "pkg", nested); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("pkg"), map[string]string{"package": "/", "package/a": "x"})
	r = newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(file("metadata.gz", "m"), file("data.tar.gz", string(gzipOf(tarOf(file("lib/a", "x")))))), "pkg", nested); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("pkg"), map[string]string{"metadata.gz": "m", "data": "/", "data/lib": "/", "data/lib/a": "x"})
	r = newRoom(t, wire.DefaultExtractPolicy())
	if got := refusal(t, r.unpack(tarOf(file("data.tar.gz", "no archive")), "pkg", nested)); got.Rule != extract.RuleUnknownFormat {
		t.Errorf("refused by %q, want what is wrong with the inner archive", got.Rule)
	}
}
