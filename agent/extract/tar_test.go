package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// attack is an archive with its one right answer: a rule it is refused by, or
// what is left on disk and how often the result says that something deviated.
type attack struct {
	name    string
	archive []byte
	policy  func(*wire.ExtractPolicy)
	rule    string
	entry   string
	tree    map[string]string
	notes   []string // "rule action"
}

func runAttacks(t *testing.T, attacks []attack) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			policy := wire.DefaultExtractPolicy()
			if a.policy != nil {
				a.policy(&policy)
			}
			r := newRoom(t, policy)
			err := r.unpack(a.archive, "pkg")
			if a.rule != "" {
				got := refusal(t, err)
				if got.Rule != a.rule || a.entry != "" && got.Entry != a.entry {
					t.Fatalf("refused by %q at %q (%s), want %q at %q", got.Rule, got.Entry, got.Detail, a.rule, a.entry)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			compareTrees(t, r.tree("pkg"), a.tree)
			var notes []string
			for _, n := range r.x.Report().Notes {
				notes = append(notes, n.Rule+" "+n.Action)
			}
			if strings.Join(notes, ", ") != strings.Join(a.notes, ", ") {
				t.Errorf("the notes are %q, want %q", notes, a.notes)
			}
		})
	}
}

func duplicates(c wire.Clash) func(*wire.ExtractPolicy) {
	return func(p *wire.ExtractPolicy) { p.Duplicates = c }
}

func caseClash(c wire.Clash) func(*wire.ExtractPolicy) {
	return func(p *wire.ExtractPolicy) { p.CaseClash = c }
}

func TestEachTarNameAttackHasItsAnswer(t *testing.T) {
	long := strings.Repeat("x", 256)
	runAttacks(t, []attack{
		{name: "a name that climbs", archive: tarOf(file("../../canary/file", "x")), rule: extract.RuleNameTraversal, entry: "../../canary/file"},
		{name: "a name that climbs in the middle", archive: tarOf(file("a/../../b", "x")), rule: extract.RuleNameTraversal},
		{name: "a name that ends in two dots", archive: tarOf(folder("a/..")), rule: extract.RuleNameTraversal},
		{name: "an absolute name", archive: tarOf(file("/etc/passwd", "x")), rule: extract.RuleNameAbsolute},
		{name: "a drive", archive: tarOf(file(`C:\windows`, "x")), rule: extract.RuleNameAbsolute},
		{name: "a drive with a slash", archive: tarOf(file("c:/windows", "x")), rule: extract.RuleNameAbsolute},
		{name: "a backslash that climbs", archive: tarOf(file(`..\..\x`, "x")), rule: extract.RuleNameBackslash},
		{name: "a UNC name", archive: tarOf(file(`\\host\share`, "x")), rule: extract.RuleNameBackslash},
		{name: "a NUL in a PAX path", archive: tarOf(pax("path=a\x00b"), file("a", "x")), rule: extract.RuleTarPAX},
		{name: "a NUL in a GNU name", archive: tarOf(gnuName('L', "a\x00b"), file("a", "x")), rule: extract.RuleNameNUL},
		{name: "a component of 256 bytes", archive: tarOf(pax("path="+long), file("a", "x")), rule: extract.RuleNameTooLong},
		{name: "a name over the limit", archive: tarOf(pax("path="+strings.Repeat("a/", 600)+"b"), file("a", "x")), rule: extract.RuleLimitPathBytes},
		{name: "a name too deep", archive: tarOf(pax("path="+strings.Repeat("a/", 100)+"b"), file("a", "x")), rule: extract.RuleLimitDepth},
		{name: "a file with no name", archive: tarOf(file("./", "")), tree: map[string]string{}},
		{name: "a file named by a dot", archive: tarOf(file(".", "x")), rule: extract.RuleNameEmpty},
		{name: "a symlink with no name", archive: tarOf(symlink("", "a")), rule: extract.RuleNameEmpty},
		{name: "dots and slashes that say nothing", archive: tarOf(folder("./"), file("./a//b/./c", "x")), tree: map[string]string{"a": "/", "a/b": "/", "a/b/c": "x"}},
		{
			name: "a control character", archive: tarOf(file("Icon\r", "x")),
			tree: map[string]string{"Icon%0D": "x"}, notes: []string{"name-control renamed"},
		},
		{
			name: "a name that is not UTF-8", archive: tarOf(file("caf\xe9/a", "x"), file("caf\xe9/b", "y")),
			tree:  map[string]string{"caf%E9": "/", "caf%E9/a": "x", "caf%E9/b": "y"},
			notes: []string{"name-encoding renamed", "name-encoding renamed"},
		},
		{
			name: "a stray byte and what it is renamed to", archive: tarOf(file("a\xff", "x"), file("a%FF", "y")),
			tree: map[string]string{"a%FF": "x", "a%FF~2": "y"}, notes: []string{"name-encoding renamed", "duplicate renamed"},
		},
	})
}

func TestEachTarClashHasItsAnswer(t *testing.T) {
	runAttacks(t, []attack{
		{
			name: "a duplicate is kept beside the first", archive: tarOf(file("a.js", "one"), file("a.js", "two"), file("./a.js", "three")),
			tree: map[string]string{"a.js": "one", "a~2.js": "two", "a~3.js": "three"}, notes: []string{"duplicate renamed", "duplicate renamed"},
		},
		{
			name: "a duplicate that expects its number to be free", archive: tarOf(file("a~2.js", "mine"), file("a.js", "one"), file("a.js", "two")),
			tree: map[string]string{"a~2.js": "mine", "a.js": "one", "a~3.js": "two"}, notes: []string{"duplicate renamed"},
		},
		{name: "a duplicate is refused", archive: tarOf(file("a", "one"), file("a", "two")), policy: duplicates(wire.ClashRefuse), rule: extract.RuleDuplicate, entry: "a"},
		{
			name: "a duplicate takes the place", archive: tarOf(file("a", "one"), file("a", "two")), policy: duplicates(wire.ClashReplace),
			tree: map[string]string{"a": "two"}, notes: []string{"duplicate replaced"},
		},
		{
			name: "a directory twice is no deviation", archive: tarOf(folder("d/"), file("d/a", "x"), folder("d")),
			tree: map[string]string{"d": "/", "d/a": "x"},
		},
		{
			name: "another letter case is kept beside", archive: tarOf(file("Readme", "one"), file("README", "two")),
			tree: map[string]string{"Readme": "one", "README~2": "two"}, notes: []string{"case-clash renamed"},
		},
		{name: "another letter case is refused", archive: tarOf(file("a", "1"), file("A", "2")), policy: caseClash(wire.ClashRefuse), rule: extract.RuleCaseClash, entry: "A"},
		{
			name: "another letter case takes the place", archive: tarOf(file("a", "1"), file("A", "2")), policy: caseClash(wire.ClashReplace),
			tree: map[string]string{"A": "2"}, notes: []string{"case-clash replaced"},
		},
		{
			name: "two directories by letter case merge when told to", archive: tarOf(file("Lib/a", "1"), file("lib/b", "2")), policy: caseClash(wire.ClashReplace),
			tree: map[string]string{"Lib": "/", "Lib/a": "1", "Lib/b": "2"}, notes: []string{"case-clash replaced"},
		},
		{
			name: "composed and decomposed", archive: tarOf(file("caf\u00e9", "1"), file("cafe\u0301", "2")),
			tree: map[string]string{"caf\u00e9": "1", "cafe\u0301~2": "2"}, notes: []string{"case-clash renamed"},
		},
		{
			name: "a sharp s and two", archive: tarOf(file("stra\u00dfe", "1"), file("STRASSE", "2")),
			tree: map[string]string{"stra\u00dfe": "1", "STRASSE~2": "2"}, notes: []string{"case-clash renamed"},
		},
		{
			name: "a Hangul syllable and its letters", archive: tarOf(file("\ud55c", "1"), file("\u1112\u1161\u11ab", "2")),
			tree: map[string]string{"\ud55c": "1", "\u1112\u1161\u11ab~2": "2"}, notes: []string{"case-clash renamed"},
		},
		{
			name: "marks in another order", archive: tarOf(file("a\u0323\u0307", "1"), file("a\u0307\u0323", "2")),
			tree: map[string]string{"a\u0323\u0307": "1", "a\u0307\u0323~2": "2"}, notes: []string{"case-clash renamed"},
		},
		{
			name: "a file where a directory must be", archive: tarOf(file("a", "1"), file("a/b", "2"), file("a/c", "3")),
			tree: map[string]string{"a": "1", "a~2": "/", "a~2/b": "2", "a~2/c": "3"}, notes: []string{"type-clash renamed"},
		},
		{
			name: "a directory takes a file's place", archive: tarOf(file("a", "1"), file("a/b", "2")), policy: duplicates(wire.ClashReplace),
			tree: map[string]string{"a": "/", "a/b": "2"}, notes: []string{"type-clash replaced"},
		},
		{
			name: "a file never takes a directory's place", archive: tarOf(file("a/b", "2"), file("a", "1")), policy: duplicates(wire.ClashReplace),
			tree: map[string]string{"a": "/", "a/b": "2", "a~2": "1"}, notes: []string{"type-clash renamed"},
		},
		{
			name: "a link becomes a file", archive: tarOf(symlink("a", "b"), file("a", "1")), policy: duplicates(wire.ClashReplace),
			tree: map[string]string{"a": "1"}, notes: []string{"type-clash replaced"},
		},
	})
}

func TestEachTarLinkAttackHasItsAnswer(t *testing.T) {
	runAttacks(t, []attack{
		{name: "a link that climbs", archive: tarOf(symlink("a", "../../canary")), rule: extract.RuleSymlinkOutside, entry: "a"},
		{name: "a link that climbs after it descends", archive: tarOf(symlink("d/a", "x/../../../canary")), rule: extract.RuleSymlinkOutside},
		{name: "an absolute link is left out", archive: tarOf(file("f", "x"), symlink("a", "/etc/passwd")), tree: map[string]string{"f": "x"}, notes: []string{"symlink-absolute skipped"}},
		{name: "a write through a link", archive: tarOf(symlink("a", ".."), file("a/b", "x")), rule: extract.RuleThroughSymlink, entry: "a/b"},
		{name: "a write through an absolute link", archive: tarOf(symlink("a", "/tmp"), file("a/b", "x")), rule: extract.RuleThroughSymlink},
		{name: "a write through an inner link", archive: tarOf(folder("d"), symlink("a", "d"), file("a/b", "x")), rule: extract.RuleThroughSymlink},
		{name: "a directory over a link", archive: tarOf(symlink("a", "."), folder("a/")), rule: extract.RuleThroughSymlink},
		{
			name: "a directory replaced by a link", archive: tarOf(file("a/b", "x"), symlink("a", "..")),
			rule: extract.RuleSymlinkOutside,
		},
		{
			name: "a directory and an inner link of its name", archive: tarOf(file("a/b", "x"), symlink("a", "a")),
			tree: map[string]string{"a": "/", "a/b": "x", "a~2": "-> a"}, notes: []string{"type-clash renamed"},
		},
		{
			name:    "links that climb together",
			archive: tarOf(folder("a/b/c"), symlink("a/b/c/up", "../.."), symlink("a/b/escape", "c/up/../..")),
			rule:    extract.RuleSymlinkOutside, entry: "a/b/escape",
		},
		{
			name:    "a link that a later link bends",
			archive: tarOf(symlink("e", "d/../x"), symlink("d", ".")),
			rule:    extract.RuleSymlinkOutside, entry: "e",
		},
		{
			name:    "a hard link through links",
			archive: tarOf(folder("a/b/c"), symlink("a/b/c/up", "../.."), hardlink("h", "a/b/c/up/../../canary")),
			rule:    extract.RuleHardlinkTarget,
		},
		{name: "links in a circle", archive: tarOf(symlink("a", "b"), symlink("b", "a")), tree: map[string]string{"a": "-> b", "b": "-> a"}},
		{name: "a link within", archive: tarOf(file("d/f", "x"), symlink("d/l", "../d/f")), tree: map[string]string{"d": "/", "d/f": "x", "d/l": "-> ../d/f"}},
		{name: "a link before its target", archive: tarOf(symlink("l", "f"), file("f", "x")), tree: map[string]string{"l": "-> f", "f": "x"}},
		{name: "a link to nowhere", archive: tarOf(symlink("l", "f")), tree: map[string]string{"l": "-> f"}},
		{name: "an empty target", archive: tarOf(symlink("l", "")), rule: extract.RuleSymlinkTarget},
		{name: "a target with a newline", archive: tarOf(symlink("l", "a\nb")), rule: extract.RuleSymlinkTarget},
		{name: "a target with a backslash", archive: tarOf(symlink("l", `..\x`)), rule: extract.RuleSymlinkTarget},
		{name: "a target of many thousand bytes", archive: tarOf(gnuName('K', strings.Repeat("a/", 5000)), symlink("l", "a")), rule: extract.RuleSymlinkTarget},
		{name: "a link whose name ends in a slash", archive: tarOf(symlink("l/", "f")), rule: extract.RuleTypeAmbiguous},
		{name: "a hard link", archive: tarOf(file("f", "x"), hardlink("h", "./f")), tree: map[string]string{"f": "x", "h": "x"}},
		{name: "a hard link to the outside", archive: tarOf(hardlink("h", "../../canary/file")), rule: extract.RuleHardlinkTarget, entry: "h"},
		{name: "an absolute hard link", archive: tarOf(hardlink("h", "/etc/passwd")), rule: extract.RuleHardlinkTarget},
		{name: "a hard link to a later file", archive: tarOf(hardlink("h", "f"), file("f", "x")), rule: extract.RuleHardlinkTarget},
		{name: "a hard link to a directory", archive: tarOf(folder("d"), hardlink("h", "d")), rule: extract.RuleHardlinkTarget},
		{name: "a hard link to a link", archive: tarOf(symlink("l", "f"), hardlink("h", "l")), rule: extract.RuleHardlinkTarget},
		{name: "a hard link to itself", archive: tarOf(file("f", "x"), hardlink("f", "f")), tree: map[string]string{"f": "x"}, notes: []string{"hardlink-self skipped"}},
		{
			name: "a hard link to a duplicate means the later one", archive: tarOf(file("f", "one"), file("f", "two"), hardlink("h", "f")),
			tree: map[string]string{"f": "one", "f~2": "two", "h": "two"}, notes: []string{"duplicate renamed"},
		},
		{
			name: "a file over a hard link leaves the other alone", archive: tarOf(file("f", "one"), hardlink("h", "f"), file("h", "two")), policy: duplicates(wire.ClashReplace),
			tree: map[string]string{"f": "one", "h": "two"}, notes: []string{"duplicate replaced"},
		},
	})
}

func TestEachTarHeaderAttackHasItsAnswer(t *testing.T) {
	whole := tarOf(file("a", "content"), file("b", "more"))
	runAttacks(t, []attack{
		{name: "a character device", archive: tarOf(rawTar{name: "null", kind: '3'}), rule: extract.RuleSpecialFile},
		{name: "a block device", archive: tarOf(rawTar{name: "sda", kind: '4'}), rule: extract.RuleSpecialFile},
		{name: "a FIFO", archive: tarOf(rawTar{name: "pipe", kind: '6'}), rule: extract.RuleSpecialFile},
		{name: "a sparse file", archive: tarOf(rawTar{name: "s", kind: 'S', magic: "ustar  \x00"}), rule: extract.RuleTarSparse},
		{name: "a sparse file with data", archive: tarOf(rawTar{name: "s", kind: 'S', magic: "ustar  \x00", content: "x"}), rule: extract.RuleTarSparse},
		{name: "an unknown type with data", archive: tarOf(rawTar{name: "s", kind: 'D', magic: "ustar  \x00", content: "x"}), rule: extract.RuleTarType},
		{name: "a device with data", archive: tarOf(rawTar{name: "s", kind: '3', content: "x"}), rule: extract.RuleSpecialFile},
		{name: "a sparse file by PAX", archive: tarOf(pax("GNU.sparse.major=1", "GNU.sparse.minor=0"), file("s", "x")), rule: extract.RuleTarSparse},
		{name: "an unknown type", archive: tarOf(rawTar{name: "u", kind: 'Z'}), rule: extract.RuleTarType},
		{name: "a volume", archive: tarOf(rawTar{name: "u", kind: 'M'}), rule: extract.RuleTarType},
		{name: "a contiguous file is a file", archive: tarOf(rawTar{name: "c", kind: '7', content: "x"}), tree: map[string]string{"c": "x"}},
		{name: "a file of the oldest kind", archive: tarOf(rawTar{name: "c", content: "x", magic: "\x00"}), tree: map[string]string{"c": "x"}},
		{name: "a directory of the oldest kind", archive: tarOf(rawTar{name: "c/", magic: "\x00"}), tree: map[string]string{"c": "/"}},
		{name: "a file that is called a directory", archive: tarOf(file("c/", "x")), rule: extract.RuleTypeAmbiguous},
		{name: "a directory with bytes", archive: tarOf(rawTar{name: "d/", kind: '5', content: string(file("hidden", "x").bytes())}), rule: extract.RuleTarSize},
		{name: "a symlink with bytes", archive: tarOf(rawTar{name: "l", kind: '2', link: "a", content: "x"}), rule: extract.RuleTarSize},
		{name: "a hard link with bytes", archive: tarOf(file("f", "x"), rawTar{name: "l", kind: '1', link: "f", content: "x"}), rule: extract.RuleTarSize},
		{name: "set-id bits", archive: tarOf(rawTar{name: "su", kind: '0', mode: "0006755", content: "x"}, rawTar{name: "t", kind: '5', mode: "0001777"}), tree: map[string]string{"su": "x", "t": "/"}, notes: []string{"mode-clamped clamped", "mode-clamped clamped"}},
		{name: "a directory nobody may enter", archive: tarOf(rawTar{name: "d", kind: '5', mode: "0000000"}, file("d/f", "x")), tree: map[string]string{"d": "/", "d/f": "x"}},
		{name: "a PAX size against the header's", archive: tarOf(pax("size=1024"), file("a", "x"), file("b", "y")), rule: extract.RuleTarSize, entry: "a"},
		{name: "a PAX size of zero against the header's", archive: tarOf(pax("size=0"), file("a", string(file("hidden", "x").bytes()))), rule: extract.RuleTarSize},
		{name: "a PAX size that agrees", archive: tarOf(pax("size=1"), file("a", "x")), tree: map[string]string{"a": "x"}},
		{name: "a PAX size before a GNU name", archive: tarOf(pax("size=512"), gnuName('L', "evil"), file("a", "x")), rule: extract.RuleTarConflict},
		{name: "a PAX path and a GNU name", archive: tarOf(gnuName('L', "one"), pax("path=two"), file("a", "x")), rule: extract.RuleTarConflict},
		{name: "two PAX headers", archive: tarOf(pax("path=one"), pax("path=two"), file("a", "x")), rule: extract.RuleTarConflict},
		{name: "two GNU names", archive: tarOf(gnuName('L', "one"), gnuName('L', "two"), file("a", "x")), rule: extract.RuleTarConflict},
		{name: "two paths in one PAX header", archive: tarOf(pax("path=one", "path=two"), file("a", "x")), rule: extract.RuleTarConflict},
		{name: "a PAX header and no entry", archive: tarOf(file("b", "x"), pax("path=one")), rule: extract.RuleTarConflict},
		{name: "a PAX record whose length is wrong", archive: tarOf(rawTar{name: "x", kind: 'x', content: "99 path=evil\n"}, file("a", "x")), rule: extract.RuleTarPAX},
		{name: "a PAX record without an end", archive: tarOf(rawTar{name: "x", kind: 'x', content: "11 path=evil"}, file("a", "x")), rule: extract.RuleTarPAX},
		{name: "a PAX record with no length", archive: tarOf(rawTar{name: "x", kind: 'x', content: "path=evil\n"}, file("a", "x")), rule: extract.RuleTarPAX},
		{name: "a negative PAX size", archive: tarOf(pax("size=-1"), file("a", "x")), rule: extract.RuleTarPAX},
		{name: "an empty PAX path", archive: tarOf(pax("path="), file("a", "x")), rule: extract.RuleTarPAX},
		{name: "a PAX path", archive: tarOf(pax("path=dir/long name", "mtime=1.5", "SCHILY.xattr.user.a=b\x00c"), file("a", "x")), tree: map[string]string{"dir": "/", "dir/long name": "x"}},
		{name: "a global header as git writes it", archive: tarOf(rawTar{name: "pax_global_header", kind: 'g', content: paxRecords("comment=0123")}, file("a", "x")), tree: map[string]string{"a": "x"}, notes: []string{"tar-global skipped"}},
		{name: "a global header that renames", archive: tarOf(rawTar{name: "g", kind: 'g', content: paxRecords("path=evil")}, file("a", "x")), rule: extract.RuleTarGlobal},
		{name: "a global header that resizes", archive: tarOf(rawTar{name: "g", kind: 'g', content: paxRecords("size=0")}, file("a", "x")), rule: extract.RuleTarGlobal},
		{name: "an extended header of a gigabyte", archive: tarOf(rawTar{name: "x", kind: 'x', declared: 1 << 30}), rule: extract.RuleLimitMetadata},
		{name: "a GNU name of a gigabyte", archive: tarOf(rawTar{name: "x", kind: 'L', declared: 1 << 30}), rule: extract.RuleLimitMetadata},
		{name: "a GNU name", archive: tarOf(gnuName('L', "dir/"+strings.Repeat("n", 200)), file("a", "x")), tree: map[string]string{"dir": "/", "dir/" + strings.Repeat("n", 200): "x"}},
		{name: "a long link and nothing to link", archive: tarOf(gnuName('K', "t"), symlink("l", "x")), tree: map[string]string{"l": "-> t"}},
		{name: "a volume label is left out", archive: tarOf(rawTar{name: "label", kind: 'V', magic: "ustar  \x00"}, file("a", "x")), tree: map[string]string{"a": "x"}, notes: []string{"tar-label skipped"}},
		{name: "a ustar prefix", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "a/b", content: "x"}), tree: map[string]string{"a": "/", "a/b": "/", "a/b/f": "x"}},
		{name: "a ustar prefix that climbs", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "../..", content: "x"}), rule: extract.RuleNameTraversal},
		{name: "a ustar prefix in a GNU header", archive: tarOf(rawTar{name: "f", kind: '0', prefix: "evil", magic: "ustar  \x00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "a prefix that runs into star's times", archive: tarOf(rawTar{name: "f", kind: '0', prefix: strings.Repeat("p", 140), trailer: "tar\x00", content: "x"}), rule: extract.RuleTarHeader},
		{name: "a size in base 256", archive: tarOf(rawTar{name: "f", kind: '0', size: "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", content: "x"}), tree: map[string]string{"f": "x"}},
		{name: "a negative size", archive: tarOf(rawTar{name: "f", kind: '0', size: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}), rule: extract.RuleTarHeader},
		{name: "a size of 95 bits", archive: tarOf(rawTar{name: "f", kind: '0', size: "\x80\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"}), rule: extract.RuleTarHeader},
		{name: "a size that is no number", archive: tarOf(rawTar{name: "f", kind: '0', size: "0000000000x "}), rule: extract.RuleTarHeader},
		{name: "a size with digits behind its end", archive: tarOf(rawTar{name: "f", kind: '0', size: "00000001 777"}), rule: extract.RuleTarHeader},
		{name: "a wrong checksum", archive: tarOf(file("a", "x"), rawTar{name: "b", kind: '0', badSum: true}), rule: extract.RuleTarHeader},
		{name: "content that is missing", archive: whole[:512+3], rule: extract.RuleTruncated, entry: "a"},
		{name: "a header that is cut short", archive: whole[:1024+100], rule: extract.RuleTruncated},
		{name: "padding that is cut short", archive: whole[:512+7+9], rule: extract.RuleTruncated},
		{name: "no end marker", archive: whole[:2048], tree: map[string]string{"a": "content", "b": "more"}},
		{name: "half an end marker", archive: whole[:2048+512], tree: map[string]string{"a": "content", "b": "more"}},
		{name: "entries behind the end", archive: append(tarOf(file("a", "x")), tarOf(file("b", "y"))...), rule: extract.RuleTrailingData},
		{name: "entries behind half an end", archive: append(append(file("a", "x").bytes(), make([]byte, 512)...), tarOf(file("b", "y"))...), rule: extract.RuleTrailingData},
		{name: "nothing but an end", archive: make([]byte, 10240), rule: extract.RuleEmpty},
		{name: "no bytes", archive: nil, rule: extract.RuleEmpty},
	})
}

func TestEachLimitIsCheckedBeforeAnythingIsWritten(t *testing.T) {
	const huge = 100 << 30
	runAttacks(t, []attack{
		{name: "a file that says 100 GiB", archive: tarOf(rawTar{name: "f", kind: '0', declared: huge}), rule: extract.RuleLimitFileBytes, entry: "f"},
		{name: "a PAX size of 100 GiB", archive: tarOf(pax("size=107374182400"), rawTar{name: "f", kind: '0'}), rule: extract.RuleLimitFileBytes},
		{
			name: "one file too large", archive: tarOf(file("f", "12345")),
			policy: func(p *wire.ExtractPolicy) { p.MaxFileBytes = 4 }, rule: extract.RuleLimitFileBytes,
		},
		{
			name: "too many bytes", archive: tarOf(file("f", "12345"), file("g", "12345")),
			policy: func(p *wire.ExtractPolicy) { p.MaxBytes = 9 }, rule: extract.RuleLimitBytes, entry: "g",
		},
		{
			name: "too many entries", archive: tarOf(file("f", ""), file("g", ""), folder("h")),
			policy: func(p *wire.ExtractPolicy) { p.MaxEntries = 2 }, rule: extract.RuleLimitEntries, entry: "h",
		},
		{
			name: "too many directories between", archive: tarOf(file("a/b/c/d/e/f", "")),
			policy: func(p *wire.ExtractPolicy) { p.MaxEntries = 3 }, rule: extract.RuleLimitEntries,
		},
		{
			name: "exactly as much as allowed", archive: tarOf(file("f", "12345"), file("g", "1234")),
			policy: func(p *wire.ExtractPolicy) { p.MaxBytes, p.MaxFileBytes, p.MaxEntries = 9, 5, 2 },
			tree:   map[string]string{"f": "12345", "g": "1234"},
		},
		{
			name: "a zip member that says 4 GiB", archive: zipOf(rawZip{name: "f", method: 8, size: ptr(uint32(1<<32 - 2)), content: "x"}),
			rule: extract.RuleLimitRatio,
		},
		{
			name: "a zip member that says 100 GiB", archive: zipOf(rawZip{
				name: "f", content: "x", size: ptr(uint32(1<<32 - 1)), compressed: ptr(uint32(1<<32 - 1)),
				extra: extraField(1, []byte("\x00\x00\x00\x00\x19\x00\x00\x00\x00\x00\x00\x00\x19\x00\x00\x00")),
			}), rule: extract.RuleZipOverlap,
		},
		{
			name: "too many zip entries", archive: zipOf(rawZip{name: "f"}, rawZip{name: "g"}),
			policy: func(p *wire.ExtractPolicy) { p.MaxEntries = 1 }, rule: extract.RuleLimitEntries,
		},
		{
			name: "a zip directory that says 60,000", archive: zipWith(zipOptions{count: ptr(uint16(60000))}, rawZip{name: "f"}),
			rule: extract.RuleLimitEntries,
		},
		{
			name: "an ar member over the limit", archive: arOf([2]string{"debian-binary", "2.0\n"}),
			policy: func(p *wire.ExtractPolicy) { p.MaxFileBytes = 3 }, rule: extract.RuleLimitFileBytes,
		},
	})
}

func TestACrowdOfClashingLongNamesIsNumberedInTurn(t *testing.T) {
	stem := strings.Repeat("x", 250)
	var headers []rawTar
	const crowd = 900
	for i := range crowd {
		name := fmt.Sprintf("%s%03d", stem, i)
		headers = append(headers, pax("path="+name), file("a", "1"), pax("path="+name), file("a", "2"))
	}
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(headers...), "pkg"); err != nil {
		t.Fatal(err)
	}
	got := r.x.Report()
	if got.Renamed != crowd || got.Files != 2*crowd || len(r.tree("pkg")) != 2*crowd {
		t.Errorf("%d renamed, %d files, %d names", got.Renamed, got.Files, len(r.tree("pkg")))
	}
}
