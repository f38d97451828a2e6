package room_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

func TestATreeIsArchivedAsRootsAndWithoutTimes(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "usr"), 0o700), os.Chmod(filepath.Join(dir, "usr"), 0o755),
		os.WriteFile(filepath.Join(dir, "usr", "tool"), []byte("content"), 0o600), os.Chmod(filepath.Join(dir, "usr", "tool"), 0o755),
		os.Symlink("usr/tool", filepath.Join(dir, "link")),
	); err != nil {
		t.Fatal(err)
	}
	write := func() []byte {
		var b bytes.Buffer
		if err := room.WriteTar(&b, dir); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write()
	var got []string
	for archive := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %c %o %d:%d %q %q %d", h.Name, h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname, content, h.ModTime.Unix()))
	}
	want := []string{`link 2 777 0:0 "usr/tool" "" 0`, `usr 5 755 0:0 "" "" 0`, `usr/tool 0 755 0:0 "" "content" 0`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.Chtimes(filepath.Join(dir, "usr", "tool"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, write()) {
		t.Error("a time made other bytes")
	}
}

func TestATreeThatIsNotThereIsAnErrorThatNamesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no-such-tree")
	if err := room.WriteTar(io.Discard, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
