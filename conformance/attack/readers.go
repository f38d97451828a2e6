package attack

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// readerCases are tars that one installer in use reads otherwise than the
// rest: npm's node-tar, cargo's and Python's reader above all.
func readerCases() []Case {
	hidden := string(tarOpen(file("hidden", "x")))
	record := strings.TrimSuffix(paxRecords([]string{"path=hidden.js"}), "\n")
	header := func(at int, text string) func([]byte) { return func(h []byte) { copy(h[at:], text) } }
	return []Case{
		{ID: "E131", Name: "a PAX record within a comment", Why: "Readers that split at newlines find a path in it.", Archive: tar(pax("comment=a\n"+record), file("a", "x")), Refused: "tar-pax"},
		{ID: "E132", Name: "a PAX record within an attribute", Why: "The same where a value may be any bytes.", Archive: tar(pax("SCHILY.xattr.user.a=a\n"+record), file("a", "x")), Refused: "tar-pax"},
		{ID: "E133", Name: "a size within a global comment", Why: "To those readers all entries to come have no content, and what was content is entries.", Archive: tar(paxGlobal("comment=a\n9 size=0"), file("a", hidden)), Refused: "tar-pax"},
		{ID: "E134", Name: "a newline in a PAX key", Why: "The same in front of the equals sign.", Archive: tar(pax("k\n"+record), file("a", "x")), Refused: "tar-pax"},
		{ID: "E135", Name: "a NUL in a PAX record", Why: "Readers in C stop there.", Archive: tar(pax("uname=a\x00b"), file("a", "x")), Refused: "tar-pax"},
		{ID: "E136", Name: "a PAX path that is not UTF-8", Why: "A reader that decodes the header as text drops the record and takes the other name.", Archive: tar(pax("path=b\xff"), file("a", "x")), Refused: "tar-pax"},
		{
			ID: "E137", Name: "a binary attribute", Why: "A file capability is twenty bytes of anything; packages have them.",
			Archive: tar(pax("SCHILY.xattr.security.capability=\x01\x00\x00\x02\x00\x20\x00\x00"), file("package/a.txt", "hello\n")), Tree: hello,
		},
		{ID: "E138", Name: "a global header within an extended one", Why: "It ends what was said of the entry, for some.", Archive: tar(pax("path=b"), paxGlobal("comment=c"), file("a", "x")), Refused: "tar-conflict"},
		{ID: "E139", Name: "a prefix in a v7 header", Why: "Python joins it to the name, and npm does not.", Archive: tar(entry{name: "f", body: "x", raw: func(h []byte) { clear(h[257:265]); copy(h[345:], "p") }}), Refused: "tar-header"},
		{ID: "E140", Name: "a prefix in a GNU header", Why: "GNU has times there, and Python a prefix.", Archive: tar(entry{name: "f", body: "x", raw: func(h []byte) { copy(h[257:], "ustar  \x00"); copy(h[345:], "14000000000") }}), Refused: "tar-header"},
		{ID: "E141", Name: "a prefix without the version", Why: "npm and cargo take a prefix of version 00 alone.", Archive: tar(entry{name: "f", body: "x", raw: func(h []byte) { copy(h[263:], "\x00\x00"); copy(h[345:], "p") }}), Refused: "tar-header"},
		{
			ID: "E142", Name: "a prefix as ustar has it", Why: "An honest long name, or a reader that refuses all prefixes would pass.",
			Archive: tar(entry{name: "a.txt", body: "hello\n", raw: header(345, "package")}), Tree: hello,
		},
		{ID: "E143", Name: "a name that goes on behind its NUL", Why: "npm drops what is behind a NUL up to the next newline.", Archive: tar(file("a\x00\nb", "x")), Refused: "name-nul"},
		{ID: "E144", Name: "package/c:/package.json", Why: "npm takes the first component away, and then the drive, on every system: this is the package.json that it installs.", Archive: tar(file("package/package.json", "{}"), file("package/c:/package.json", "{}")), Refused: "name-absolute"},
		{ID: "E145", Name: "package/c:index.js", Why: "The same with a name that is relative to a drive.", Archive: tar(file("package/index.js", "1"), file("package/c:index.js", "2")), Refused: "name-absolute"},
		{ID: "E146", Name: "package///?/x/index.js", Why: "A device path is a root to Windows, and npm takes it away too.", Archive: tar(file("package///?/x/index.js", "x")), Refused: "name-absolute"},
		{
			ID: "E147", Name: "two files in one place for npm", Why: "It drops the first component whatever it is, and the last file wins: both are kept, and it is said so.",
			Archive: tar(file("package/package.json", "1"), file("zz/package.json", "2")),
			Tree:    treeOf(map[string]string{"package/package.json": "1", "zz/package.json": "2"}), Notes: []string{"strip-clash"},
		},
		{
			ID: "E148", Name: "a colon in a manual's name", Why: "Deeper down a colon is ordinary.", Archive: tar(file("./usr/share/man/man3/B::Name.3pm", "x")),
			Tree: treeOf(map[string]string{"usr/share/man/man3/B::Name.3pm": "x"}),
		},
		{ID: "E149", Name: "a checksum of signed bytes", Why: "npm passes the header over and goes on in the content.", Archive: func() []byte { return signed(tarOf(file("caf\u00e9", hidden))) }, Refused: "tar-header"},
		{ID: "E150", Name: "a checksum without an end", Why: "npm reads on into the type, passes the header over and goes on in the content.", Archive: func() []byte { return unended(tarOf(file("f", hidden))) }, Refused: "tar-header"},
		{ID: "E151", Name: "a file with a link's target", Why: "npm passes such a header over and goes on in the content.", Archive: tar(entry{name: "f", link: "g", body: hidden}), Refused: "tar-header"},
		{ID: "E152", Name: "a long name's header without a name", Why: "npm passes it over, and takes the short name.", Archive: tar(entry{kind: 'L', body: "hidden\x00"}, file("a", "x")), Refused: "tar-header"},
		{ID: "E153", Name: "an owner that JavaScript can't count", Why: "npm passes the header over and goes on in the content.", Archive: tar(entry{name: "f", body: hidden, raw: header(108, "\x81\x00\x00\x00\x00\x00\x00\x01")}), Refused: "tar-header"},
		{ID: "E154", Name: "a directory without a name", Why: "npm passes it over, and keeps what was said of it for the next entry.", Archive: tar(pax("size=0"), dir(""), file("a", hidden)), Refused: "name-empty"},
		{ID: "E155", Name: "a link without a target of its own", Why: "npm passes it over, and gives the next entry its PAX path.", Archive: tar(pax("path=b", "linkpath=c"), symlink("l", ""), file("a", "x")), Refused: "tar-conflict"},
		{
			ID: "E156", Name: "a directory in its header and a file in PAX", Why: "Python judges by the header's own name, and goes on in the content.",
			Archive: tar(pax("path=f"), entry{name: "f/", body: hidden, raw: func(h []byte) { h[156] = 0 }}), Refused: "type-ambiguous",
		},
		{ID: "E157", Name: "12 MiB of zeros before 1 MiB of noise", Why: "No bomb, if the whole is looked at and not its beginning.", Archive: func() []byte { return gz(growing(true)) }, Tree: grown()},
		{ID: "E158", Name: "12 MiB of zeros behind 1 MiB of noise", Why: "The order of files is nobody's business.", Archive: func() []byte { return gz(growing(false)) }, Tree: grown()},
		{
			ID: "E159", Name: "a tar that is no gem", Why: "An inner archive that is asked for where there is one may be missing.", Archive: helloTar, Tree: hello,
			Nested: []wire.Nested{{Member: "data.tar.gz", Into: wire.MustRelPath("data"), Optional: true}},
		},
		{
			ID: "E160", Name: "a gem whose data may be missing and is there", Why: "What may be missing is unpacked all the same.",
			Archive: tar(file("data.tar.gz", string(gz(tarOf(file("lib/x.rb", "x")))))), Tree: treeOf(map[string]string{"data/lib/x.rb": "x"}),
			Nested: []wire.Nested{{Member: "data.tar.gz", Into: wire.MustRelPath("data"), Optional: true}},
		},
	}
}

const manyZeros = 12 << 20

func growing(zerosFirst bool) []byte {
	zeros, rest := file("zeros", strings.Repeat("\x00", manyZeros)), file("noise", noise(1<<20))
	if zerosFirst {
		return tarOf(zeros, rest)
	}
	return tarOf(rest, zeros)
}

func grown() map[string]Node {
	return map[string]Node{"zeros": File(strings.Repeat("\x00", manyZeros)), "noise": File(noise(1 << 20))}
}

// noise does not compress, and is the same every time.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		b.Write(sum[:])
	}
	return b.String()[:n]
}

// signed gives the first header of a tar the checksum of its bytes as signed.
func signed(b []byte) []byte {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(int8(c))
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// unended fills the checksum's field with digits to its end.
func unended(b []byte) []byte {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%08o", sum))
	return b
}
