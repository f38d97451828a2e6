package bwrap

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// BenchmarkRun is one whole run with a scanner that does nothing, beside the
// same argv with that scanner in the agent's place.
func BenchmarkRun(b *testing.B) {
	if _, err := FindBinary(DefaultBinary); err != nil {
		b.Skip("not run: bwrap is not installed")
	}
	noop := testkit.Build(b, "../room/testdata/program")
	rooms := testkit.Rooms(b, "scanner", testkit.Agent(b), room.Source{Path: noop, To: "/usr/bin/noop"})
	bare := testkit.Rooms(b, "scanner", noop)
	b.Run("agent", func(b *testing.B) {
		r, err := New(Config{Rooms: rooms, RunDir: filepath.Join(testkit.Dir(b), "runs")})
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		spec := stubSpec()
		spec.Argv = []string{"noop"}
		for b.Loop() {
			if _, err := r.Run(b.Context(), spec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		work := testkit.Dir(b)
		binary, err := FindBinary(DefaultBinary)
		if err != nil {
			b.Fatal(err)
		}
		argv := Argv(Config{Binary: binary}, sandbox.RunSpec{}, Dirs{Room: filepath.Join(bare, "scanner"), Work: work})
		for b.Loop() {
			if err := exec.CommandContext(b.Context(), argv[0], argv[1:]...).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
