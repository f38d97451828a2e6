package extract_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// room is a work directory with a canary beside it that nothing may touch.
type room struct {
	t      testing.TB
	work   string
	canary string
	x      *extract.Extractor
	policy wire.ExtractPolicy
}

const canaryText = "untouched"

func newRoom(t testing.TB, policy wire.ExtractPolicy) *room {
	t.Helper()
	base := t.TempDir()
	r := &room{t: t, work: filepath.Join(base, "work"), canary: filepath.Join(base, "canary"), policy: policy}
	for _, dir := range []string{r.work, r.canary} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.canary, "file"), []byte(canaryText), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(r.work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	r.x = extract.New(root, policy)
	return r
}

func (r *room) unpack(archive []byte, into string, nested ...wire.Nested) error {
	r.t.Helper()
	return r.unpackContext(r.t.Context(), archive, into, nested...)
}

func (r *room) unpackContext(ctx context.Context, archive []byte, into string, nested ...wire.Nested) error {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "archive")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	err = r.x.Archive(ctx, "in", f, wire.MustRelPath(into), nested)
	r.audit()
	return err
}

// audit is the oracle: nothing outside the work directory, no limit passed,
// nothing in it that a scanner could be harmed or fooled by.
func (r *room) audit() {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(r.work))
	if err != nil || len(entries) != 2 {
		r.t.Errorf("beside the work directory: %v, %v", entries, err)
	}
	beside, err := os.ReadDir(r.canary)
	if err != nil || len(beside) != 1 {
		r.t.Errorf("in the canary: %v, %v", beside, err)
	}
	if b, err := os.ReadFile(filepath.Join(r.canary, "file")); err != nil || string(b) != canaryText {
		r.t.Errorf("the canary is %q, %v", b, err)
	}
	var total, count int64
	err = filepath.WalkDir(r.work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == r.work {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		count++
		switch mode := info.Mode(); {
		case mode.IsRegular():
			total += info.Size()
			if info.Size() > r.policy.MaxFileBytes {
				r.t.Errorf("%s has %d bytes", path, info.Size())
			}
			if mode.Perm() != 0o644 || mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
				r.t.Errorf("%s has mode %v", path, mode)
			}
		case mode.IsDir():
			if mode.Perm() != 0o755 {
				r.t.Errorf("%s has mode %v", path, mode)
			}
		case mode&fs.ModeSymlink != 0:
			r.auditLink(path)
		default:
			r.t.Errorf("%s is a %v", path, mode)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
	if total > r.policy.MaxBytes {
		r.t.Errorf("%d bytes in all, want at most %d", total, r.policy.MaxBytes)
	}
	if count > 2*r.policy.MaxEntries+int64(wire.PathDepthCap) {
		r.t.Errorf("%d names, want at most %d", count, 2*r.policy.MaxEntries)
	}
}

func (r *room) auditLink(path string) {
	r.t.Helper()
	target, err := filepath.EvalSymlinks(path)
	if err == nil && target != r.work && !strings.HasPrefix(target, r.work+"/") {
		r.t.Errorf("%s leads to %s", path, target)
	}
}

// tree lists what stands below a directory of the work directory: files with
// their content, directories with a slash, links with an arrow.
func (r *room) tree(dir string) map[string]string {
	r.t.Helper()
	return treeOf(r.t, filepath.Join(r.work, dir))
}

func treeOf(t testing.TB, root string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			out[name] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			out[name] = "-> " + target
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[name] = string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func compareTrees(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if have, ok := got[name]; !ok {
			t.Errorf("%q is missing", name)
		} else if have != content {
			t.Errorf("%q is %.60q, want %.60q", name, have, content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q should not be there", name)
		}
	}
}

// refusal returns the refusal in err, or fails the test.
func refusal(t testing.TB, err error) wire.Refusal {
	t.Helper()
	var r *extract.RefusalError
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if r.Input != "in" || r.Rule == "" || r.Detail == "" {
		t.Errorf("the refusal lacks a part: %+v", r.Refusal)
	}
	return r.Refusal
}

// rawTar is one header block with its content, as hostile as a test wants it.
type rawTar struct {
	name, link string
	kind       byte
	mode       string // "0000644"
	size       string // 11 octal digits by default
	declared   int64  // the size in the header, if it is not that of content
	content    string
	magic      string // "ustar\x0000" by default
	prefix     string
	trailer    string
	badSum     bool
	change     func(b []byte) // of the finished header; its checksum is mended unless it changes too
}

func (h rawTar) bytes() []byte {
	b := make([]byte, 512)
	copy(b[0:100], h.name)
	copy(b[100:108], "0000644\x00")
	if h.mode != "" {
		copy(b[100:108], h.mode+"\x00")
	}
	copy(b[108:116], "0000000\x00")
	copy(b[116:124], "0000000\x00")
	size := int64(len(h.content))
	if h.declared != 0 {
		size = h.declared
	}
	if h.size != "" {
		copy(b[124:136], h.size)
	} else if size < 1<<33 {
		copy(b[124:136], fmt.Sprintf("%011o\x00", size))
	} else {
		b[124] = 0x80
		binary.BigEndian.PutUint64(b[128:136], uint64(size))
	}
	copy(b[136:148], "00000000000\x00")
	b[156] = h.kind
	copy(b[157:257], h.link)
	magic := h.magic
	if magic == "" {
		magic = "ustar\x0000"
	}
	copy(b[257:265], magic)
	copy(b[345:500], h.prefix)
	copy(b[500:512], "")
	copy(b[508:512], h.trailer)
	copy(b[148:156], "        ")
	var sum int
	for _, c := range b {
		sum += int(c)
	}
	if h.badSum {
		sum++
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	if h.change != nil {
		mend(b, h.change)
	}
	b = append(b, h.content...)
	return append(b, make([]byte, -len(h.content)&511)...)
}

// mend changes a header and makes its checksum right again, unless that is
// what changed.
func mend(b []byte, change func([]byte)) {
	before := string(b[148:156])
	change(b)
	if string(b[148:156]) != before {
		return
	}
	copy(b[148:156], "        ")
	var sum int
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// tarOf joins headers and ends them properly.
func tarOf(headers ...rawTar) []byte {
	var b []byte
	for _, h := range headers {
		b = append(b, h.bytes()...)
	}
	return append(b, make([]byte, 1024)...)
}

func file(name, content string) rawTar { return rawTar{name: name, kind: '0', content: content} }
func folder(name string) rawTar        { return rawTar{name: name, kind: '5', mode: "0000755"} }
func symlink(name, to string) rawTar   { return rawTar{name: name, kind: '2', link: to} }
func hardlink(name, to string) rawTar  { return rawTar{name: name, kind: '1', link: to} }

func pax(records ...string) rawTar {
	return rawTar{name: "PaxHeaders/x", kind: 'x', content: paxRecords(records...)}
}

func paxRecords(records ...string) string {
	var b strings.Builder
	for _, r := range records {
		n := len(r) + 2
		for len(fmt.Sprint(n))+len(r)+2 != n {
			n++
		}
		fmt.Fprintf(&b, "%d %s\n", n, r)
	}
	return b.String()
}

func gnuName(kind byte, name string) rawTar {
	return rawTar{name: "././@LongLink", kind: kind, content: name + "\x00", magic: "ustar  \x00"}
}

func gzipOf(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func arOf(members ...[2]string) []byte {
	b := []byte("!<arch>\n")
	for _, m := range members {
		b = append(b, fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n", m[0], 0, 0, 0, "100644", len(m[1]))...)
		b = append(b, m[1]...)
		if len(m[1])%2 == 1 {
			b = append(b, '\n')
		}
	}
	return b
}

func ptr[T any](v T) *T { return &v }
