package agent_test

import (
	"os/exec"
	"testing"
)

// A run of a program that does nothing, and the program alone: the difference
// is what the agent costs as a library.
func BenchmarkARunInThisProcess(b *testing.B) {
	bed := newBed(b)
	bed.m.Argv = []string{"true"}
	for b.Loop() {
		bed.exited(0)
	}
}

func BenchmarkTheProgramAlone(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
