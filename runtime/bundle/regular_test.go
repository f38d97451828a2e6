package bundle_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

func TestNothingButARegularFileIsRead(t *testing.T) {
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{
		fifo: "is a FIFO and not", socket: "is a socket and not", dir: "is a directory and not",
		"/dev/zero": "is a device and not", filepath.Join(dir, "none"): "no such file",
	} {
		if f, err := bundle.OpenRegular(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", path, f, err, want)
		}
		if _, err := bundle.ReadFile(path, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestNoMoreIsReadThanTheLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := bundle.ReadFile(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := bundle.ReadFile(file, 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("got %v", err)
	}
}
