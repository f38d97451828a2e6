package bundle

import (
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestARunThatNamesAnImageIsRefusedWhereNoneIsRun(t *testing.T) {
	if fault := RefuseImage(""); fault != nil {
		t.Errorf("no image: %v", fault)
	}
	fault := RefuseImage("registry.example/scanner@sha256:00")
	if fault == nil || fault.Kind != sandbox.Refused || fault.Code != sandbox.CodeConfig || !strings.Contains(fault.Error(), "registry.example") {
		t.Errorf("an image: %v", fault)
	}
}
