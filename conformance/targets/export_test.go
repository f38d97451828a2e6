package targets

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
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

// CrunMutants are the mutants of the three programs, made without one.
func CrunMutants(b *Builder) []conformance.Target {
	var list []conformance.Target
	for _, flavour := range crun.Flavours {
		base := &crunBase{builder: b, flavour: flavour}
		list = append(list, conformance.Target{
			Name: string(flavour), Mutants: crunMutants(base), Without: base.target(crunBreakage{}).Without,
		})
	}
	return list
}

// KubernetesMutants are the mutants of both classes, made without a cluster.
func KubernetesMutants(b *Builder) []conformance.Target {
	var list []conformance.Target
	for _, class := range []string{"", runscClass} {
		base := &kubernetesBase{builder: b, KubernetesOptions: KubernetesOptions{Class: class}}
		list = append(list, conformance.Target{Name: "kubernetes-" + class, Mutants: kubernetesMutants(base)})
	}
	return list
}

// Rendered is what a session's namespace is made of.
func Rendered() string { return rendered }
