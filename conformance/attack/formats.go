package attack

func of[T any](v T) *T { return &v }

func fixed(b []byte) func() []byte { return func() []byte { return b } }

// hello is the tree of the plainest package.
var hello = map[string]Node{"package": Dir(), "package/a.txt": File("hello\n")}

func helloTar() []byte { return tarOf(file("package/a.txt", "hello\n")) }

// formatCases are honest archives, one of each format: a reader that refuses
// all attacks by refusing everything fails here.
func formatCases() []Case {
	return []Case{
		{ID: "E01", Name: "a plain tar", Why: "An ordinary archive is unpacked, or a reader that refuses everything would pass.", Archive: helloTar, Tree: hello},
		{
			ID: "E02", Name: "a tar.gz with directories, empty files and modes", Why: "What an npm package looks like.",
			Archive: func() []byte {
				return gz(tarOf(dir("package/"), file("package/package.json", "{}\n"), file("package/lib/index.js", "x()\n"), file("package/empty", ""), dir("package/void/"), entry{name: "package/run.sh", body: "#!/bin/sh\n", mode: 0o755}))
			},
			Tree: map[string]Node{"package": Dir(), "package/package.json": File("{}\n"), "package/lib": Dir(), "package/lib/index.js": File("x()\n"), "package/empty": File(""), "package/void": Dir(), "package/run.sh": File("#!/bin/sh\n")},
		},
		{ID: "E03", Name: "a tar.bz2", Why: "Source distributions come so.", Archive: func() []byte { return decoded(goodBzip2) }, Tree: hello},
		{ID: "E04", Name: "a tar.xz", Why: "Members of debs come so.", Archive: func() []byte { return decoded(goodXZ) }, Tree: hello},
		{ID: "E05", Name: "a tar.zst", Why: "Members of debs come so.", Archive: func() []byte { return zstdStored(helloTar()) }, Tree: hello},
		{
			ID: "E06", Name: "a zip with stored and deflated members", Why: "Wheels, jars and Go modules are zips.",
			Archive: zip(member{name: "package/a.txt", body: "hello\n"}, member{name: "package/b.txt", body: lines(200), deflate: true}),
			Tree:    map[string]Node{"package": Dir(), "package/a.txt": File("hello\n"), "package/b.txt": File(lines(200))},
		},
		{
			ID: "E07", Name: "a zip with data descriptors", Why: "A writer that streams puts sizes behind the data, as every jar tool does.",
			Archive: zip(member{name: "a.txt", body: lines(50), deflate: true, descriptor: true}), Tree: map[string]Node{"a.txt": File(lines(50))},
		},
		{
			ID: "E08", Name: "a zip64 that needs none", Why: "Writers that do not know the size beforehand make them.",
			Archive: archive{members: []member{{name: "a.txt", body: "a"}}, zip64: true}.make(), Tree: map[string]Node{"a.txt": File("a")},
		},
		{
			ID: "E09", Name: "a gzip of two members", Why: "Concatenated gzip members are one stream to every reader; what the second holds must not be lost.",
			Archive: func() []byte { b := helloTar(); return append(gz(b[:700]), gz(b[700:])...) }, Tree: hello,
		},
		{
			ID: "E10", Name: "long names of both kinds", Why: "Names over 100 bytes come as GNU long names or as PAX paths.",
			Archive: func() []byte {
				return tarOf(gnuLong('L', long("gnu")), file(long("gnu")[:100], "g"), pax("path="+long("pax")), file("short", "p"))
			},
			Tree: treeOf(map[string]string{long("gnu"): "g", long("pax"): "p"}),
		},
		{
			ID: "E11", Name: "names with ./ and double slashes", Why: "What every reader drops is no deviation.",
			Archive: tar(dir("./"), file("./package//a.txt", "hello\n")), Tree: hello,
		},
		{
			ID: "E12", Name: "a name in Unicode", Why: "A name that can be shown is kept as it is.",
			Archive: tar(file("ünï/日本.txt", "x")), Tree: map[string]Node{"ünï": Dir(), "ünï/日本.txt": File("x")},
		},
	}
}

func lines(n int) string {
	b := make([]byte, 0, 8*n)
	for i := range n {
		b = append(b, "line "...)
		b = append(b, byte('a'+i%26), '\n')
	}
	return string(b)
}

// long is a path of about 150 bytes.
func long(word string) string {
	s := word
	for range 12 {
		s += "/component-" + word[:1]
	}
	return s
}

// treeOf is the tree of files with all their directories.
func treeOf(files map[string]string) map[string]Node {
	tree := map[string]Node{}
	for name, content := range files {
		tree[name] = File(content)
		for i, c := range name {
			if c == '/' {
				tree[name[:i]] = Dir()
			}
		}
	}
	return tree
}
