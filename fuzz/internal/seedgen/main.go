// Command seedgen writes the committed seeds of the fuzz targets. It is run by
// go generate and its output does not depend on when or where.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func main() {
	for target, seeds := range map[string]map[string][]byte{
		"fuzz_sandbox_manifest": manifests(),
		"fuzz_sandbox_result":   results(),
		"fuzz_sandbox_relpath":  paths(),
		"fuzz_sandbox_tar":      tars(),
		"fuzz_sandbox_zip":      zips(),
		"fuzz_sandbox_gzip":     gzips(),
	} {
		dir := filepath.Join("seeds", target)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			fail(err)
		}
		for name, data := range seeds {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				fail(err)
			}
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "seedgen:", err)
	os.Exit(1)
}

func must[T any](v T, err error) T {
	if err != nil {
		fail(err)
	}
	return v
}

func manifests() map[string][]byte {
	m := &wire.Manifest{
		Wire: wire.Version, Label: wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1},
		Entries: []wire.Entry{
			{Path: wire.MustRelPath("a"), Kind: wire.Archive, URL: "file:///work/in/a", Size: 9, Nested: []wire.Nested{{Member: "data.tar.*"}}},
			{Path: wire.MustRelPath("b/c"), Kind: wire.File, Inline: []byte("x"), Size: 1},
		},
		Policy: wire.DefaultExtractPolicy(), Argv: []string{"scan", "/work/a"}, Limits: wire.DefaultLimits(),
		TimeoutMS: 1000, FetchMS: 500, Canaries: []string{"1.1.1.1:53", "[2606:4700:4700::1111]:53"},
	}
	run := must(m.Encode())
	m.Argv, m.Probe = nil, &wire.ProbeRequest{Commands: []string{"scan"}, MemoryWall: true}
	m.Results = []wire.ResultURL{{Size: 65536, URL: "https://s3.example/k?X-Amz-Signature=0"}}
	probe := must(m.Encode())
	return map[string][]byte{
		"run": run, "probe": probe,
		"later-version": bytes.Replace(run, []byte(`"wire":1`), []byte(`"wire":2`), 1),
		"repeated-key":  bytes.Replace(run, []byte(`"network":false`), []byte(`"network":false,"network":true`), 1),
		"null":          bytes.Replace(run, []byte(`"network":false`), []byte(`"network":null`), 1),
		"cut":           run[:len(run)/2],
	}
}

// results are result documents without their envelope; the target seals them.
func results() map[string][]byte {
	const counters = `"oom_killed":false,"stdout_bytes":6,"stderr_bytes":0,"stderr_tail":"","extraction":{"archives":0,"entries":0,"files":0,` +
		`"directories":0,"symlinks":0,"hardlinks":0,"bytes":0,"skipped":0,"renamed":0,"replaced":0,"clamped":0,"notes":[]},` +
		`"usage":{"user_ms":0,"system_ms":0,"max_rss_kib":0},"phases":{"fetch_ms":0,"extract_ms":0,"run_ms":0}`
	exited := `{"wire":1,"agent":"1","ending":"exited","status":0,` + counters + `}`
	return map[string][]byte{
		"exited":   []byte(exited),
		"refused":  []byte(`{"wire":1,"agent":"1","ending":"refused","refusal":{"input":"a","entry":"../x","rule":"parent","detail":"d"},` + counters + `}`),
		"probed":   []byte(`{"wire":1,"agent":"1","ending":"probed","probe":{"verdicts":[{"id":"no-network","outcome":"pass","detail":"d"}],"commands":[],"uid":1},` + counters + `}`),
		"disagree": []byte(strings.Replace(exited, `"status":0,`, "", 1)),
		"later":    []byte(strings.Replace(exited, `"wire":1`, `"wire":2`, 1)),
	}
}

func paths() map[string][]byte {
	all := map[string][]byte{}
	for i, s := range []string{".", "a", "a/b/c", "..", "../a", "a/../b", "/a", "a//b", "a/", `a\b`, "a\x00", "é", "\xff", "...", strings.Repeat("a/", 300) + "a"} {
		all[fmt.Sprintf("%02d", i)] = []byte(s)
	}
	return all
}

type member struct {
	header tar.Header
	data   string
}

func tarOf(members ...member) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		m.header.Size = int64(len(m.data))
		if m.header.Mode == 0 {
			m.header.Mode = 0o644
		}
		if err := w.WriteHeader(&m.header); err != nil {
			fail(err)
		}
		must(w.Write([]byte(m.data)))
	}
	if err := w.Close(); err != nil {
		fail(err)
	}
	return b.Bytes()
}

func file(name, data string) member { return member{tar.Header{Name: name}, data} }

func tars() map[string][]byte {
	link := func(kind byte, name, target string) member {
		return member{header: tar.Header{Typeflag: kind, Name: name, Linkname: target}}
	}
	plain := tarOf(file("package/package.json", "{}"), file("package/index.js", "1"))
	return map[string][]byte{
		"plain":       plain,
		"directories": tarOf(member{header: tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755}}, file("a/b", "x")),
		"links":       tarOf(file("a/b", "x"), link(tar.TypeSymlink, "a/s", "b"), link(tar.TypeLink, "h", "a/b")),
		"duplicates":  tarOf(file("a", "1"), file("a", "2"), file("A", "3")),
		"long-name":   tarOf(file(strings.Repeat("n", 120)+"/"+strings.Repeat("m", 100), "x")),
		"pax":         tarOf(member{tar.Header{Name: "p", Format: tar.FormatPAX, PAXRecords: map[string]string{"comment": "x"}}, "x"}),
		"traversal":   tarOf(file("../x", "x")),
		"absolute":    tarOf(file("/x", "x")),
		"link-out":    tarOf(link(tar.TypeSymlink, "s", "../.."), file("s/x", "x")),
		"device":      tarOf(member{header: tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}),
		"nested":      tarOf(file("data.tar", string(plain))),
		"cut":         plain[:700],
	}
}

func zips() map[string][]byte {
	build := func(add func(*zip.Writer)) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		add(w)
		if err := w.Close(); err != nil {
			fail(err)
		}
		return b.Bytes()
	}
	put := func(w *zip.Writer, method uint16, name, data string) {
		f := must(w.CreateHeader(&zip.FileHeader{Name: name, Method: method}))
		must(f.Write([]byte(data)))
	}
	plain := build(func(w *zip.Writer) {
		put(w, zip.Deflate, "m@v1/go.mod", "module m\n")
		put(w, zip.Store, "m@v1/a.go", "package m\n")
	})
	return map[string][]byte{
		"plain":     plain,
		"empty":     build(func(*zip.Writer) {}),
		"duplicate": build(func(w *zip.Writer) { put(w, zip.Deflate, "a", "1"); put(w, zip.Deflate, "a", "2") }),
		"traversal": build(func(w *zip.Writer) { put(w, zip.Deflate, "../a", "1") }),
		"prefix":    append([]byte("#!/bin/sh\n"), plain...),
		"trailing":  append(bytes.Clone(plain), "tail"...),
		"cut":       plain[:len(plain)-10],
	}
}

func gzips() map[string][]byte {
	pack := func(data []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		must(w.Write(data))
		if err := w.Close(); err != nil {
			fail(err)
		}
		return b.Bytes()
	}
	inner := tarOf(file("package/a", "x"))
	whole := pack(inner)
	crc := bytes.Clone(whole)
	crc[len(crc)-6] ^= 1
	return map[string][]byte{
		"tar":     whole,
		"two":     append(pack(inner[:512]), pack(inner[512:])...),
		"zeros":   pack(make([]byte, 1<<20)),
		"bad-crc": crc,
		"cut":     whole[:len(whole)/2],
		"no-tar":  pack([]byte("hello")),
	}
}
