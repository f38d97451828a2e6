//go:build gofuzz

package fuzz

import "testing"

func TestTheGoFuzzEntryPointsAgreeWithTheNativeTargets(t *testing.T) {
	entries := map[string]func([]byte) int{
		"fuzz_sandbox_manifest": FuzzManifest,
		"fuzz_sandbox_result":   FuzzResult,
		"fuzz_sandbox_relpath":  FuzzRelPath,
		"fuzz_sandbox_tar":      FuzzArchive,
		"fuzz_sandbox_zip":      FuzzArchive,
		"fuzz_sandbox_gzip":     FuzzArchive,
	}
	for _, target := range targets {
		for name, seed := range seeds(t, target.name) {
			if got, want := entries[target.name](seed), score(target.run(seed)); got != want {
				t.Errorf("%s over %s: %d, want %d", target.name, name, got, want)
			}
		}
	}
}
