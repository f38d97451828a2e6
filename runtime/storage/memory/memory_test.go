package memory_test

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

func TestItIsABackend(t *testing.T) {
	storagetest.Backend(t, func(*testing.T) storage.Backend { return memory.New() })
}
