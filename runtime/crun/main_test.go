package crun

import (
	"os"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testkit.Clean()
	os.Exit(code)
}
