//go:build gofuzz

package fuzz

// The entry points of go-fuzz (github.com/dvyukov/go-fuzz): 1 for an input
// that deserves more attention, 0 for any other.

// FuzzManifest is fuzz_sandbox_manifest.
func FuzzManifest(data []byte) int { return score(manifest(data)) }

// FuzzResult is fuzz_sandbox_result.
func FuzzResult(data []byte) int { return score(result(data)) }

// FuzzRelPath is fuzz_sandbox_relpath.
func FuzzRelPath(data []byte) int { return score(relPath(data)) }

// FuzzArchive is fuzz_sandbox_tar, fuzz_sandbox_zip and fuzz_sandbox_gzip.
func FuzzArchive(data []byte) int { return score(archive(data)) }

func score(accepted bool) int {
	if accepted {
		return 1
	}
	return 0
}
