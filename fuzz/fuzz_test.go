package fuzz

import (
	"os"
	"path/filepath"
	"testing"
)

// target ties a name, its function and its seeds together. The names are those
// of RFC 0022 section 10 where it gives one.
type target struct {
	name string
	run  func([]byte) bool
	// accepts says that at least one seed must be accepted, so that a target
	// which refuses everything is noticed.
	accepts bool
}

var targets = []target{
	{"fuzz_sandbox_manifest", manifest, true},
	{"fuzz_sandbox_result", result, true},
	{"fuzz_sandbox_relpath", relPath, true},
	{"fuzz_sandbox_tar", archive, true},
	{"fuzz_sandbox_zip", archive, true},
	{"fuzz_sandbox_gzip", archive, true},
}

func FuzzSandboxManifest(f *testing.F) { fuzzTarget(f, "fuzz_sandbox_manifest") }
func FuzzSandboxResult(f *testing.F)   { fuzzTarget(f, "fuzz_sandbox_result") }
func FuzzSandboxRelPath(f *testing.F)  { fuzzTarget(f, "fuzz_sandbox_relpath") }
func FuzzSandboxTar(f *testing.F)      { fuzzTarget(f, "fuzz_sandbox_tar") }
func FuzzSandboxZip(f *testing.F)      { fuzzTarget(f, "fuzz_sandbox_zip") }
func FuzzSandboxGzip(f *testing.F)     { fuzzTarget(f, "fuzz_sandbox_gzip") }

func fuzzTarget(f *testing.F, name string) {
	t := targetNamed(f, name)
	for _, seed := range seeds(f, name) {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) <= 1<<20 {
			t.run(data)
		}
	})
}

func targetNamed(tb testing.TB, name string) target {
	for _, t := range targets {
		if t.name == name {
			return t
		}
	}
	tb.Fatalf("no target %s", name)
	return target{}
}

func seeds(tb testing.TB, name string) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("seeds", name, "*"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no seeds for %s: %v", name, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all[filepath.Base(file)] = b
	}
	return all
}

func TestEveryTargetTakesSomeOfItsSeedsAndRefusesOthers(t *testing.T) {
	for _, target := range targets {
		t.Run(target.name, func(t *testing.T) {
			var taken, refused int
			for _, seed := range seeds(t, target.name) {
				if target.run(seed) {
					taken++
				} else {
					refused++
				}
			}
			if taken == 0 || refused == 0 {
				t.Errorf("%d seeds taken, %d refused; want some of each", taken, refused)
			}
		})
	}
}
