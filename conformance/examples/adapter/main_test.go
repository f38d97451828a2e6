package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/adapter"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// The command checks all of group C; this is enough to see that the protocol
// carries answers, errors, refusals, cancellations and artifacts.
func TestTheExampleCarriesTheContractThroughTheProtocol(t *testing.T) {
	dir := t.TempDir()
	for name, pkg := range map[string]string{"adapter": ".", "hostile": "../../internal/hostile"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v: %s", name, err, out)
		}
	}
	target, err := adapter.Target(t.Context(), filepath.Join(dir, "adapter"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"C01", "C03", "C04", "C08", "C11", "C12", "C13", "C16", "C18", "C20", "C21", "C29", "E13", "E59"}
	r := conformance.Run(t, *target, conformance.Options{
		Programs: map[string]string{"hostile": filepath.Join(dir, "hostile")},
		Focus:    func(s conformance.Spec) bool { return slices.Contains(ids, s.ID) },
	})
	if r.Counts[report.Pass] != len(ids) {
		t.Errorf("the counts are %v", r.Counts)
	}
}
