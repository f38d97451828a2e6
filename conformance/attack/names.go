package attack

import (
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// nameCases are names that lead elsewhere, or that two readers read in two ways.
func nameCases() []Case {
	return []Case{
		{ID: "E13", Name: "tar: ../evil", Why: "The oldest escape there is.", Archive: tar(file("package/a.txt", "a"), file("../evil", "x")), Refused: "name-traversal"},
		{ID: "E14", Name: "tar: a/../../evil", Why: "A path that comes back up further than it went down.", Archive: tar(file("a/../../evil", "x")), Refused: "name-traversal"},
		{ID: "E15", Name: "tar: a/.. as a directory", Why: "Two dots have no honest use in a package, wherever they lead.", Archive: tar(dir("a/b/../"), file("a/x", "x")), Refused: "name-traversal"},
		{ID: "E16", Name: "tar: /etc/evil", Why: "An absolute name overwrites the host's file in a careless reader.", Archive: tar(file("/etc/evil", "x")), Refused: "name-absolute"},
		{ID: "E17", Name: "tar: C:/evil", Why: "A drive is a root on one system and a directory on another.", Archive: tar(file("C:/evil", "x")), Refused: "name-absolute"},
		{ID: "E18", Name: `tar: C:\evil`, Why: "A drive with a backslash.", Archive: tar(file(`C:\evil`, "x")), Refused: "name-absolute"},
		{ID: "E19", Name: `tar: a\..\..\evil`, Why: "A backslash is a separator to some readers and a letter to others.", Archive: tar(file(`a\..\..\evil`, "x")), Refused: "name-backslash"},
		{ID: "E20", Name: `tar: \\host\share\evil`, Why: "A UNC name reaches over the network where it is understood.", Archive: tar(file(`\\host\share\evil`, "x")), Refused: "name-backslash"},
		{ID: "E21", Name: "zip: ../evil", Why: "The same escape in a zip, known as Zip Slip.", Archive: zip(member{name: "a.txt", body: "a"}, member{name: "../evil", body: "x"}), Refused: "name-traversal"},
		{ID: "E22", Name: "zip: /etc/evil", Why: "Zip Slip from the root.", Archive: zip(member{name: "/etc/evil", body: "x"}), Refused: "name-absolute"},
		{ID: "E23", Name: `zip: ..\evil`, Why: "Zip Slip for readers of backslashes.", Archive: zip(member{name: `..\evil`, body: "x"}), Refused: "name-backslash"},
		{ID: "E24", Name: "zip: a NUL byte in a name", Why: "Readers in C stop at a NUL byte and see another name.", Archive: zip(member{name: "safe.txt\x00.exe", body: "x"}), Refused: "name-nul"},
		{
			ID: "E25", Name: "tar: control characters in a name", Why: "A name that rewrites the terminal it is printed on is kept under a name that can be read.",
			Archive: tar(file("a\x1b[2Jb", "x")), Tree: map[string]Node{"a%1B[2Jb": File("x")}, Notes: []string{"name-control"},
		},
		{
			ID: "E26", Name: "tar: a name that is not UTF-8", Why: "Bytes that are no text are kept under a name that is.",
			Archive: tar(file("caf\xe9", "x")), Tree: map[string]Node{"caf%E9": File("x")}, Notes: []string{"name-encoding"},
		},
		{
			ID: "E27", Name: "tar: a component of 256 bytes", Why: "No file system can hold it, so that a scanner would not see it.",
			Archive: tar(pax("path="+strings.Repeat("n", 256)), file("x", "x")), Refused: "name-too-long",
		},
		{
			ID: "E28", Name: "tar: a path longer than the policy allows", Why: "Paths without end exhaust whoever walks them.",
			Archive: tar(pax("path="+strings.Repeat("abcdefghi/", 110)+"x"), file("x", "x")), Refused: "limit-path-bytes",
		},
		{
			ID: "E29", Name: "tar: a path of 70 components", Why: "Depth without end exhausts whoever descends.",
			Archive: tar(pax("path="+strings.Repeat("d/", 69)+"x"), file("x", "x")), Refused: "limit-depth",
		},
		{
			ID: "E30", Name: "tar: names of the agent's own at the top", Why: "An archive that is unpacked to the top can't take the place of the manifest or the result; it is kept beside.", Into: ".",
			Archive: tar(file("manifest.json", "{}"), file("out.tar", "x"), file("package/a.txt", "hello\n")),
			Tree:    map[string]Node{"manifest~2.json": File("{}"), "out~2.tar": File("x"), "package": Dir(), "package/a.txt": File("hello\n")},
			Notes:   []string{"name-reserved", "name-reserved"},
		},
		{ID: "E31", Name: "tar: a file without a name", Why: "Nobody knows where it would go.", Archive: tar(file("", "x")), Refused: "name-empty"},
	}
}

// linkCases are links, alone and through each other.
func linkCases() []Case {
	return []Case{
		{
			ID: "E32", Name: "a symbolic link inside", Why: "An honest link is kept.", Archive: tar(file("a.txt", "a"), symlink("b.txt", "a.txt"), symlink("d/up", "../a.txt")),
			Tree: map[string]Node{"a.txt": File("a"), "b.txt": Link("a.txt"), "d": Dir(), "d/up": Link("../a.txt")},
		},
		{ID: "E33", Name: "a symbolic link that climbs out", Why: "A link out of the directory shows a scanner the agent's files, or a reader the host's.", Archive: tar(symlink("up", "../../../etc/passwd")), Refused: "symlink-outside"},
		{
			ID: "E34", Name: "links that climb out together", Why: "Each link is inside by itself; one through the other is not (CVE-2026-26960).",
			Archive: tar(dir("a/b/c/"), symlink("a/b/c/up", "../.."), symlink("a/b/escape", "c/up/../..")), Refused: "symlink-outside",
		},
		{
			ID: "E35", Name: "an absolute symbolic link", Why: "System packages have them; it is left out and said so, for it leads out of any directory.",
			Archive: tar(file("a.txt", "a"), symlink("passwd", "/etc/passwd")), Tree: map[string]Node{"a.txt": File("a")}, Notes: []string{"symlink-absolute"},
		},
		{
			ID: "E36", Name: "a file through a symbolic link", Why: "Written through a link, a file lands where the link leads.",
			Archive: tar(dir("real/"), symlink("via", "real"), file("via/x", "x")), Refused: "through-symlink",
		},
		{
			ID: "E37", Name: "a directory in the place of a symbolic link", Why: "A reader that takes the link for the directory writes through it (CVE-2025-4517).",
			Archive: tar(dir("real/"), symlink("via", "real"), dir("via/")), Refused: "through-symlink",
		},
		{
			ID: "E38", Name: "symbolic links in a circle", Why: "Nobody gets out of a circle, so it is kept for the scanner to see.",
			Archive: tar(symlink("a", "b"), symlink("b", "a")), Tree: map[string]Node{"a": Link("b"), "b": Link("a")},
		},
		{ID: "E39", Name: "a symbolic link with an empty target", Why: "What an empty target means depends on the system (CVE-2026-39822).", Archive: tar(symlink("empty", "")), Refused: "symlink-target"},
		{ID: "E40", Name: "a symbolic link with a backslash in its target", Why: "It leads elsewhere where a backslash is a separator.", Archive: tar(symlink("l", `..\..\evil`)), Refused: "symlink-target"},
		{
			ID: "E41", Name: "a hard link to a file before it", Why: "npm drops hard links and a scanner must see what others would write.",
			Archive: tar(file("a.txt", "a"), hardlink("b.txt", "a.txt")), Tree: map[string]Node{"a.txt": File("a"), "b.txt": File("a")},
		},
		{ID: "E42", Name: "a hard link to ../../etc/passwd", Why: "A hard link that is resolved from elsewhere names a file of the host (CVE-2026-50163).", Archive: tar(hardlink("x", "../../etc/passwd")), Refused: "hardlink-target"},
		{ID: "E43", Name: "a hard link to /etc/passwd", Why: "A hard link to the host's file shares its content for good.", Archive: tar(hardlink("x", "/etc/passwd")), Refused: "hardlink-target"},
		{
			ID: "E44", Name: "a hard link to a symbolic link", Why: "Hard link to symbolic link to file outside: each reader checks another half (CVE-2026-23745).",
			Archive: tar(file("a.txt", "a"), symlink("l", "a.txt"), hardlink("x", "l")), Refused: "hardlink-target",
		},
		{ID: "E45", Name: "a hard link to a file that comes later", Why: "Only what is there can be linked to.", Archive: tar(hardlink("x", "a.txt"), file("a.txt", "a")), Refused: "hardlink-target"},
		{
			ID: "E46", Name: "a hard link to itself", Why: "It carries nothing and crashed readers (libarchive#1381); it is left out and said so.",
			Archive: tar(file("a.txt", "a"), hardlink("a.txt", "a.txt")), Tree: map[string]Node{"a.txt": File("a")}, Notes: []string{"hardlink-self"},
		},
		{ID: "E47", Name: "a hard link to a directory", Why: "There are none.", Archive: tar(dir("d/"), hardlink("x", "d")), Refused: "hardlink-target"},
		{
			ID: "E48", Name: "zip: a symbolic link that climbs out", Why: "Zips have links too, and most readers forget it.",
			Archive: zip(member{name: "up", body: "../../etc/passwd", mode: 0o120777}), Refused: "symlink-outside",
		},
		{
			ID: "E49", Name: "zip: a file through a symbolic link", Why: "The same escape in the other format.",
			Archive: zip(member{name: "real/a", body: "a"}, member{name: "via", body: "real", mode: 0o120777}, member{name: "via/x", body: "x"}), Refused: "through-symlink",
		},
	}
}

// typeCases are entries that are no files, and modes that mean something.
func typeCases() []Case {
	return []Case{
		{ID: "E50", Name: "a character device", Why: "A device node is the device.", Archive: tar(entry{name: "null", kind: '3'}), Refused: "special-file"},
		{ID: "E51", Name: "a block device", Why: "A block device is a disk.", Archive: tar(entry{name: "sda", kind: '4'}), Refused: "special-file"},
		{ID: "E52", Name: "a FIFO", Why: "Whoever opens it waits for ever.", Archive: tar(entry{name: "fifo", kind: '6'}), Refused: "special-file"},
		{ID: "E53", Name: "zip: a device", Why: "A zip's modes can say so too.", Archive: zip(member{name: "dev", mode: 0o020666}), Refused: "special-file"},
		{
			ID: "E54", Name: "set-id and sticky bits", Why: "A set-id program belongs to whoever unpacks it; the bits are dropped and said so.",
			Archive: tar(entry{name: "su", body: "x", mode: 0o4755}, entry{name: "sg", body: "x", mode: 0o2755}),
			Tree:    map[string]Node{"su": File("x"), "sg": File("x")}, Notes: []string{"mode-clamped", "mode-clamped"},
		},
		{
			ID: "E55", Name: "directories and files without any right", Why: "A scanner must be able to look into everything (fd-lock 1.2.0 shipped such a directory).",
			Archive: tar(entry{name: "d/", kind: '5', mode: 0o1}, entry{name: "d/x", body: "x", mode: 0o1}), Tree: map[string]Node{"d": Dir(), "d/x": File("x")},
		},
		{ID: "E56", Name: "a type that nobody knows", Why: "Readers differ on what to do with it.", Archive: tar(entry{name: "x", kind: 'Z'}), Refused: "tar-type"},
		{ID: "E57", Name: "a file whose name ends in a slash", Why: "A directory to old readers and a file to new ones.", Archive: tar(entry{name: "x/", kind: '0', body: "x"}), Refused: "type-ambiguous"},
		{ID: "E58", Name: "zip: a directory with content", Why: "What is in a directory's content no scanner sees.", Archive: zip(member{name: "d/", body: "hidden", mode: 0o040755}), Refused: "type-ambiguous"},
	}
}

// clashCases are names that are claimed twice.
func clashCases() []Case {
	policy := func(duplicates, cases wire.Clash) func(*wire.ExtractPolicy) {
		return func(p *wire.ExtractPolicy) { p.Duplicates, p.CaseClash = duplicates, cases }
	}
	return []Case{
		{
			ID: "E59", Name: "two files of one name", Why: "One installer takes the first and another the last; a scanner has to see both.",
			Archive: tar(file("x.js", "first"), file("x.js", "second")), Tree: map[string]Node{"x.js": File("first"), "x~2.js": File("second")}, Notes: []string{"duplicate"},
		},
		{
			ID: "E60", Name: "two files of one name, refused", Why: "A policy may refuse what is ambiguous.", Policy: policy(wire.ClashRefuse, wire.ClashRefuse),
			Archive: tar(file("x.js", "first"), file("x.js", "second")), Refused: "duplicate",
		},
		{
			ID: "E61", Name: "two files of one name, the later one wins", Why: "A policy may follow tar.", Policy: policy(wire.ClashReplace, wire.ClashReplace),
			Archive: tar(file("x.js", "first"), file("x.js", "second")), Tree: map[string]Node{"x.js": File("second")}, Notes: []string{"duplicate"},
		},
		{
			ID: "E62", Name: "names that differ by letter case", Why: "They are one file on some systems.",
			Archive: tar(file("Readme", "a"), file("README", "b")), Tree: map[string]Node{"Readme": File("a"), "README~2": File("b")}, Notes: []string{"case-clash"},
		},
		{
			ID: "E63", Name: "names that differ by Unicode form", Why: "NFC and NFD are one name on some systems.",
			Archive: tar(file("caf\u00e9", "a"), file("cafe\u0301", "b")), Tree: map[string]Node{"caf\u00e9": File("a"), "cafe\u0301~2": File("b")}, Notes: []string{"case-clash"},
		},
		{
			ID: "E64", Name: "names that differ by letter case, refused", Why: "A policy may refuse them.", Policy: policy(wire.ClashKeep, wire.ClashRefuse),
			Archive: tar(file("Readme", "a"), file("README", "b")), Refused: "case-clash",
		},
		{
			ID: "E65", Name: "a file and a directory of one name", Why: "What one reader overwrites another fails on.",
			Archive: tar(file("x", "a"), file("x/y", "b")), Tree: map[string]Node{"x": File("a"), "x~2": Dir(), "x~2/y": File("b")}, Notes: []string{"type-clash"},
		},
		{
			ID: "E66", Name: "an archive over another input", Why: "What the bundle put there was put there by the worker, and no archive replaces it.", Into: ".",
			Inputs: map[string]string{"lock.json": "the worker's"}, Archive: tar(file("lock.json", "the archive's")),
			Tree: map[string]Node{"lock.json": File("the worker's"), "lock~2.json": File("the archive's")}, Notes: []string{"duplicate"},
		},
		{
			ID: "E67", Name: "zip: two members of one name", Why: "Android took the first and checked the second.",
			Archive: zip(member{name: "x", body: "first"}, member{name: "x", body: "second"}), Tree: map[string]Node{"x": File("first"), "x~2": File("second")}, Notes: []string{"duplicate"},
		},
	}
}
