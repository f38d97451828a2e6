package extract_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// sources makes a tree of every kind of thing that packages hold.
func sources(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"README.md": "# hello", "empty": "", "src/a/b/c/deep.go": "package c",
		"name with spaces": "x", "unicode-\u00e9\u4e2d\u6587.txt": "y", "big.bin": strings.Repeat("0123456789abcdef", 80_000),
		strings.Repeat("long", 40) + "/" + strings.Repeat("name", 50): "long",
	}
	for i := range 300 {
		files[fmt.Sprintf("many/%02d/file-%d.js", i%17, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), i)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "README.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../src/a", filepath.Join(dir, "many", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "big.bin"), filepath.Join(dir, "hard.bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatOtherProgramsPackExtractsToTheSameTree(t *testing.T) {
	dir := sources(t)
	want := treeOf(t, dir)
	for _, argv := range [][]string{
		{"tar", "--format=gnu", "-cf", "OUT", "."},
		{"tar", "--format=posix", "-cf", "OUT", "."},
		{"tar", "--format=posix", "-czf", "OUT", "."},
		{"tar", "--format=gnu", "-cjf", "OUT", "."},
		{"tar", "--format=gnu", "-cJf", "OUT", "."},
		{"tar", "--format=gnu", "--zstd", "-cf", "OUT", "."},
		{"bsdtar", "--format=pax", "-czf", "OUT", "."},
		{"bsdtar", "--format=gnutar", "-cf", "OUT", "."},
		{"bsdtar", "--format=zip", "-cf", "OUT", "."},
		{"zip", "-qry", "OUT.zip", "."},
		{"zip", "-qry0", "OUT.zip", "."},
		{"zip", "-qry", "-fz", "OUT.zip", "."},
		{"xz", "--check=sha256", "--block-size=65536", "-9", "OUT.tar"},
	} {
		t.Run(strings.Join(argv[:len(argv)-1], " "), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "archive")
			archive := packWith(t, dir, out, argv)
			r := newRoom(t, wire.DefaultExtractPolicy())
			if err := r.unpack(archive, "pkg"); err != nil {
				t.Fatal(err)
			}
			compareTrees(t, r.tree("pkg"), want)
			if got := r.x.Report(); len(got.Notes) != 0 {
				t.Errorf("noted %v", got.Notes)
			}
		})
	}
}

func packWith(t *testing.T, dir, out string, argv []string) []byte {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skipf("not run: %s is not installed", argv[0])
	}
	if argv[0] == "xz" {
		packWith(t, dir, out+".tar", []string{"tar", "--format=gnu", "-cf", "OUT", "."})
	}
	args := make([]string, len(argv)-1)
	for i, a := range argv[1:] {
		args[i] = strings.Replace(a, "OUT", out, 1)
	}
	c := exec.Command(argv[0], args...)
	c.Dir = dir
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", c, err, text)
	}
	for _, path := range []string{out + ".tar.xz", out + ".zip", out} {
		if b, err := os.ReadFile(path); err == nil {
			return b
		}
	}
	t.Fatal("nothing was packed")
	return nil
}

// TestALinkSwappedInDuringExtractionLeadsNowhere plays somebody who replaces a
// directory by a link to the outside, over and over, while files go into it.
func TestALinkSwappedInDuringExtractionLeadsNowhere(t *testing.T) {
	headers := []rawTar{}
	for i := range 3000 {
		headers = append(headers, file(fmt.Sprintf("d%d/sub/f%d", i%200, i), "x"))
	}
	archive := tarOf(headers...)
	for range 5 {
		r := newRoom(t, wire.DefaultExtractPolicy())
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				path := filepath.Join(r.work, "pkg", fmt.Sprintf("d%d", i%200))
				if os.Rename(path, path+"-away") == nil {
					_ = os.Symlink(r.canary, path)
				}
			}
		})
		path := filepath.Join(t.TempDir(), "archive")
		if err := os.WriteFile(path, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		// Whether it fails does not matter; where its files are does.
		_ = r.x.Archive(t.Context(), "in", f, wire.MustRelPath("pkg"), nil)
		_ = f.Close()
		stop.Store(true)
		wg.Wait()
		beside, err := os.ReadDir(r.canary)
		if err != nil || len(beside) != 1 {
			t.Fatalf("in the canary: %v, %v", beside, err)
		}
	}
}

func TestAFullDiskIsAFailureOfOursAndNoRefusal(t *testing.T) {
	for name, archive := range map[string][]byte{
		"tar": tarOf(file("a", strings.Repeat("x", 1<<20))),
		"zip": zipOf(rawZip{name: "a", content: strings.Repeat("x", 1<<20), method: 8}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
				t.Skip("not run: mounting a small tmpfs needs root:", err)
			}
			defer unix.Unmount(dir, unix.MNT_DETACH)
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			path := filepath.Join(t.TempDir(), "archive")
			if err := os.WriteFile(path, archive, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			err = extract.New(root, wire.DefaultExtractPolicy()).Archive(t.Context(), "in", f, wire.MustRelPath("pkg"), nil)
			var r *extract.RefusalError
			if !errors.Is(err, unix.ENOSPC) || errors.As(err, &r) {
				t.Errorf("got %v, want no space and no refusal", err)
			}
		})
	}
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	r := newRoom(t, wire.DefaultExtractPolicy())
	for _, path := range []string{filepath.Dir(r.work), r.work, r.canary} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.unpack(tarOf(folder("d"), file("d/a", "x"), file("e/b", "y")), "in/to"); err != nil {
		t.Fatal(err) // unpack audits the modes
	}
}

func TestNothingStaysOpenBehindAnArchive(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("not run: no /proc:", err)
		}
		return len(entries)
	}
	headers := []rawTar{}
	for i := range 120 {
		headers = append(headers, file(fmt.Sprintf("d%d/a/b/f", i), "x"))
	}
	r := newRoom(t, wire.DefaultExtractPolicy())
	before := count()
	for i, archive := range [][]byte{
		tarOf(headers...), gzipOf(tarOf(headers...)), tarOf(append(headers, symlink("x", "../.."))...), zipOf(rawZip{name: "a", content: "x"}, rawZip{name: "../b"}),
	} {
		_ = r.unpack(archive, fmt.Sprint("pkg", i))
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func TestDirectoriesAreReopenedWhenManyAreInUse(t *testing.T) {
	headers, want := []rawTar{}, map[string]string{}
	for round := range 2 {
		for i := range 300 {
			name := fmt.Sprintf("d%d/e/f%d", i, round)
			headers = append(headers, file(name, "x"))
			want[fmt.Sprintf("d%d", i)], want[fmt.Sprintf("d%d/e", i)], want[name] = "/", "/", "x"
		}
	}
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(headers...), "pkg"); err != nil {
		t.Fatal(err)
	}
	compareTrees(t, r.tree("pkg"), want)
}

func TestHardLinksShareTheirFile(t *testing.T) {
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(tarOf(file("f", "x"), hardlink("d/h", "f")), "pkg"); err != nil {
		t.Fatal(err)
	}
	a, err := os.Stat(filepath.Join(r.work, "pkg/f"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(filepath.Join(r.work, "pkg/d/h"))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(a, b) {
		t.Error("the link is another file")
	}
	if got := r.x.Report(); got.Hardlinks != 1 || got.Files != 1 || got.Bytes != 1 {
		t.Errorf("counted %d links, %d files, %d bytes", got.Hardlinks, got.Files, got.Bytes)
	}
}

func TestAQuineIsUnpackedOnce(t *testing.T) {
	// A zip that holds itself can only be unpacked one level at a time.
	inner := zipOf(rawZip{name: "r.zip", content: "x"})
	outer := zipOf(rawZip{name: "r.zip", content: string(inner)})
	r := newRoom(t, wire.DefaultExtractPolicy())
	if err := r.unpack(outer, "pkg"); err != nil {
		t.Fatal(err)
	}
	if got := r.tree("pkg"); len(got) != 1 || !bytes.Equal([]byte(got["r.zip"]), inner) {
		t.Errorf("the tree has %d names", len(got))
	}
}
