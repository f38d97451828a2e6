package oci

import (
	"os"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

func TestMain(m *testing.M) {
	status := m.Run()
	testkit.Clean()
	os.Exit(status)
}
