package fetch_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func TestAFileIsOpenedWhereItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%c")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "file://" + strings.NewReplacer("%", "%25", " ", "%20").Replace(path)
	f, err := quick().Open(t.Context(), url, 7, func() (*os.File, error) { return nil, errors.New("a file needs no spool") })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "content" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	if b, err := quick().Bytes(t.Context(), url, 7); string(b) != "content" || err != nil {
		t.Errorf("%q (%v)", b, err)
	}
	if got, ok := fetch.FilePath(url); got != path || !ok {
		t.Errorf("path %q", got)
	}
	_, err = quick().Bytes(t.Context(), url, 6)
	wantCode(t, err, wire.CodeSizeMismatch, "more than 6 bytes")
	for _, size := range []int64{0, 6, 8, 1 << 62} {
		_, err = quick().Open(t.Context(), url, size, nil)
		wantCode(t, err, wire.CodeSizeMismatch, "7 bytes, want exactly")
	}
}

func TestOnlyARegularFileIsRead(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(target, filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{"link": wire.CodeIO, "fifo": wire.CodeIO, ".": wire.CodeIO, "missing": wire.CodeNotFound} {
		_, err := quick().Open(t.Context(), "file://"+dir+"/"+name, 7, nil)
		wantCode(t, err, code, "file://")
		_, err = quick().Bytes(t.Context(), "file://"+dir+"/"+name, 7)
		wantCode(t, err, code, "file://")
	}
	_, err := quick().Open(t.Context(), "file:///dev/zero", 7, nil)
	wantCode(t, err, wire.CodeIO, "not a regular file")
}

func TestAFullDiskIsNoSpace(t *testing.T) {
	for _, err := range []error{unix.ENOSPC, unix.EDQUOT, &fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}} {
		if code := fetch.CodeOf(err); code != wire.CodeNoSpace {
			t.Errorf("%v: %s", err, code)
		}
	}
	full := func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	if f, err := full(); err != nil {
		t.Skipf("not run: %v", err)
	} else {
		f.Close()
	}
	_, err := quick().Open(t.Context(), says(t, "HTTP/1.1 200 OK\r\n\r\ncontent"), 7, full)
	if err == nil {
		t.Error("a full disk took the content")
	}
}

func TestAnErrorNeverRepeatsAQuery(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.1:1/x?" + secret, "http://[::1/x?" + secret, "http://h/%zz?" + secret, "gopher://h/?" + secret,
		"http://user:topsecret@h/", "file:///x?" + secret, "http://h/" + strings.Repeat("x", 9000) + "?" + secret, "http://h/x#" + secret,
	} {
		_, err := quick().Bytes(t.Context(), url, 1)
		if err == nil || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%.40q: %v", url, err)
		}
	}
}
