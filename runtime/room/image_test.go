package room_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// entry is one entry of a layer.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func file(name, content string) entry {
	return entry{name: name, content: content, kind: tar.TypeReg, mode: 0o644}
}
func directory(name string) entry { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func symlink(name, to string) entry {
	return entry{name: name, link: to, kind: tar.TypeSymlink, mode: 0o777}
}

func layerOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: e.mode, Size: int64(len(e.content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t *testing.T, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ociFiles are the files of an OCI image layout: an index of two platforms, of
// which one is this machine's.
func ociFiles(t *testing.T, layers ...[]byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(b []byte) string {
		files["blobs/sha256/"+digest(b)] = b
		return "sha256:" + digest(b)
	}
	var descriptors []map[string]any
	for _, l := range layers {
		descriptors = append(descriptors, map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": blob(l), "size": len(l)})
	}
	manifest := encode(t, map[string]any{"schemaVersion": 2, "layers": descriptors})
	inner := encode(t, map[string]any{"schemaVersion": 2, "manifests": []map[string]any{
		{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": blob(manifest), "platform": map[string]string{"os": "linux", "architecture": runtime.GOARCH}},
		{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + strings.Repeat("0", 64), "platform": map[string]string{"os": "linux", "architecture": "mips"}},
	}})
	files["index.json"] = encode(t, map[string]any{"schemaVersion": 2, "manifests": []map[string]any{
		{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": blob(inner)},
	}})
	return files
}

func dockerFiles(t *testing.T, layers ...[]byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	var names, ids []string
	for i, l := range layers {
		name := fmt.Sprintf("%d/layer.tar", i)
		files[name] = l
		names, ids = append(names, name), append(ids, "sha256:"+digest(l))
	}
	files["config.json"] = encode(t, map[string]any{"rootfs": map[string]any{"type": "layers", "diff_ids": ids}})
	files["manifest.json"] = encode(t, []map[string]any{{"Config": "config.json", "Layers": names, "RepoTags": []string{"scanner:1"}}})
	return files
}

func asDir(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func asTar(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var entries []entry
	for name, b := range files {
		entries = append(entries, file(name, string(b)))
	}
	p := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(p, layerOf(t, entries...), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func fromImage(t *testing.T, image string) (string, room.Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "room")
	report, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), From: []room.Source{{Image: image}}})
	if err != nil {
		t.Fatal(err)
	}
	return dir, report
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "missing"
	}
	return string(b)
}

func TestAllFormsOfAnImageGiveTheSameRoom(t *testing.T) {
	first := layerOf(t, directory("usr/"), file("usr/data", "old"), file("./usr/kept", "kept"))
	second := layerOf(t, file("usr/data", "new"), symlink("data", "/usr/data"))
	digests := map[string]string{}
	for name, image := range map[string]string{
		"OCI directory":   asDir(t, ociFiles(t, first, second)),
		"OCI tar":         asTar(t, ociFiles(t, first, second)),
		"OCI gzip":        asDir(t, ociFiles(t, gzipped(t, first), gzipped(t, second))),
		"OCI zstd":        asDir(t, ociFiles(t, zstded(t, first), zstded(t, second))),
		"docker save":     asTar(t, dockerFiles(t, first, second)),
		"docker in a dir": asDir(t, dockerFiles(t, first, second)),
	} {
		dir, report := fromImage(t, image)
		if got := content(t, dir, "usr/data"); got != "new" {
			t.Errorf("%s: usr/data is %q", name, got)
		}
		digests[report.Digest] = name
	}
	if len(digests) != 1 {
		t.Errorf("the rooms differ: %v", digests)
	}
}

func TestALayersWhiteoutsRemoveWhatIsBelowAndNotWhatIsBesides(t *testing.T) {
	image := asDir(t, ociFiles(t,
		layerOf(t, file("a/gone", "1"), file("a/kept", "1"), file("b/gone", "1"), file("b/deep/gone", "1"), file("c/d/gone", "1"), file("e/kept", "1")),
		layerOf(t,
			file("b/new", "2"), entry{name: "b/.wh..wh..opq", kind: tar.TypeReg}, file("b/deep/new", "2"),
			entry{name: "a/.wh.gone", kind: tar.TypeReg}, entry{name: "c/.wh.d", kind: tar.TypeReg},
			entry{name: "x/.wh.never-there", kind: tar.TypeReg}, entry{name: ".wh.absent", kind: tar.TypeReg},
			entry{name: "e/.wh...", kind: tar.TypeReg},
		),
	))
	dir, _ := fromImage(t, image)
	for name, want := range map[string]string{
		"a/gone": "missing", "a/kept": "1", "b/gone": "missing", "b/deep/gone": "missing", "b/new": "2", "b/deep/new": "2", "c/d/gone": "missing", "e/kept": "1",
	} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*/.wh.*")); err != nil || len(names) > 0 {
		t.Errorf("whiteouts are in the room: %v, %v", names, err)
	}
}

func TestNoEntryOfAnImageLeavesTheRoom(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := asDir(t, ociFiles(t, layerOf(t,
		file("../../climbed", "x"), file("/absolute", "x"),
		symlink("out", outside), file("out/planted", "x"),
		symlink("far", "/opt/../opt/away"), file("far/planted", "x"),
		symlink("up", "../../../../../.."), file("up/climbed-too", "x"),
		symlink("self", "self"),
		entry{name: "out/.wh.file", kind: tar.TypeReg},
		entry{name: "up/" + strings.TrimPrefix(outside, "/") + "/.wh.file", kind: tar.TypeReg},
	)))
	dir, _ := fromImage(t, image)
	for _, name := range []string{"climbed", "absolute", "climbed-too"} {
		if got := content(t, dir, name); got != "x" {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := content(t, dir, "opt/away/planted"); got != "x" {
		t.Errorf("planted is %q: an absolute link leads within the room", got)
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 {
		t.Errorf("outside holds %v, %v", left, err)
	}
}

func TestHardLinksAndReplacementsFollowTheImage(t *testing.T) {
	image := asDir(t, ociFiles(t,
		layerOf(t, symlink("bin", "usr/bin"), file("bin/tool", "tool"), entry{name: "usr/bin/twin", link: "bin/tool", kind: tar.TypeLink}, directory("was-dir"), file("was-dir/x", "x"), file("was-file", "x")),
		layerOf(t, file("was-dir", "now a file"), directory("was-file"), file("was-file/y", "y"), entry{name: "dev/null", kind: tar.TypeChar}, entry{name: "pipe", kind: tar.TypeFifo}),
	))
	dir, report := fromImage(t, image)
	for name, want := range map[string]string{"usr/bin/tool": "tool", "usr/bin/twin": "tool", "was-dir": "now a file", "was-file/y": "y"} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(report.Skipped) != 2 {
		t.Errorf("skipped %q, want the device and the FIFO", report.Skipped)
	}
}

func TestAnImageThatIsNotWhatItSaysIsRefused(t *testing.T) {
	layer := layerOf(t, file("a", "a"))
	change := func(files map[string][]byte, edit func(name string, b []byte) []byte) map[string][]byte {
		for name, b := range files {
			files[name] = edit(name, b)
		}
		return files
	}
	for name, c := range map[string]struct{ image, says string }{
		"another layer": {asDir(t, change(ociFiles(t, layer), func(n string, b []byte) []byte {
			if n == "blobs/sha256/"+digest(layer) {
				return layerOf(t, file("a", "b"))
			}
			return b
		})), "digest"},
		"data behind a layer's end": {asDir(t, change(ociFiles(t, layer), func(n string, b []byte) []byte {
			if n == "blobs/sha256/"+digest(layer) {
				return append(bytes.Clone(b), make([]byte, 512)...)
			}
			return b
		})), "digest"},
		"another docker layer": {asTar(t, change(dockerFiles(t, layer), func(n string, b []byte) []byte {
			if n == "0/layer.tar" {
				return layerOf(t, file("a", "b"))
			}
			return b
		})), "digest"},
		"no image":             {asDir(t, map[string][]byte{"hello": nil}), "index.json"},
		"no tar":               {asDir(t, map[string][]byte{"file": []byte("text")}) + "/file", "not an uncompressed tar"},
		"a digest that climbs": {asDir(t, map[string][]byte{"index.json": []byte(`{"manifests":[{"digest":"sha256:../../../../etc/passwd"}]}`)}), "hexadecimal"},
		"two images":           {asDir(t, map[string][]byte{"manifest.json": []byte(`[{},{}]`)}), "2 images"},
		"nothing at all":       {filepath.Join(t.TempDir(), "nothing"), "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "room")
		_, err := room.Build(t.Context(), dir, room.Options{Agent: agent(t), From: []room.Source{{Image: c.image}}})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.says)
		}
		onlyEmpty(t, filepath.Dir(dir))
	}
}
