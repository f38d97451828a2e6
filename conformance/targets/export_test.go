package targets

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/conformance"
)

// OCIMutants are the mutants of the four pairs, made without an engine.
func OCIMutants(b *Builder) []conformance.Target {
	var pairs []conformance.Target
	for _, engine := range []string{"podman", "docker"} {
		for _, transport := range []string{"mount", "storage"} {
			base := &ociBase{OCIOptions: OCIOptions{Engine: engine, Transport: transport}, builder: b}
			pairs = append(pairs, conformance.Target{Name: engine + "-" + transport, Mutants: ociMutants(base)})
		}
	}
	return pairs
}

// TryS3 starts a server, and ends one that came up.
func TryS3(ctx context.Context, kind, binary string) error {
	s, err := startS3(ctx, kind, binary)
	if err != nil {
		return err
	}
	return s.close()
}
