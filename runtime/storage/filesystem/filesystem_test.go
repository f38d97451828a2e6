package filesystem_test

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/filesystem"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

func open(t *testing.T, dir string) *filesystem.Backend {
	t.Helper()
	b, err := filesystem.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestItIsABackend(t *testing.T) {
	storagetest.Backend(t, func(t *testing.T) storage.Backend { return open(t, t.TempDir()) })
}
