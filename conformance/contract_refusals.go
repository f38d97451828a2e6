package conformance

import (
	"errors"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func commandMissing(t *T) {
	for _, command := range []string{"/usr/bin/no-such-scanner-" + t.s.token, "no-such-scanner-" + t.s.token} {
		_, err := t.Run(t.Spec(command, "x"))
		t.Expect(err).To(gomega.HaveOccurred())
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeCommandMissing), "%v", err)
	}
}

func badRequests(t *T) {
	for name, change := range map[string]func(*sandbox.RunSpec){
		"no argv":             func(s *sandbox.RunSpec) { s.Argv = nil },
		"an empty command":    func(s *sandbox.RunSpec) { s.Argv = []string{""} },
		"a NUL byte in argv":  func(s *sandbox.RunSpec) { s.Argv = append(s.Argv, "a\x00b") },
		"a bad label":         func(s *sandbox.RunSpec) { s.Label.Job = "../../etc" },
		"no attempt":          func(s *sandbox.RunSpec) { s.Label.Attempt = 0 },
		"no timeout":          func(s *sandbox.RunSpec) { s.Timeout = 0 },
		"a negative limit":    func(s *sandbox.RunSpec) { s.Limits.MemoryMB = -5 },
		"no policy":           func(s *sandbox.RunSpec) { s.Bundle.Policy = wire.ExtractPolicy{} },
		"an artifact too few": func(s *sandbox.RunSpec) { s.Bundle.Entries = []wire.Entry{artifactEntry("x", wire.File, 3)} },
		"a size that is wrong": func(s *sandbox.RunSpec) {
			e := inline("x", wire.File, []byte("abc"))
			e.Size = 4
			s.Bundle.Entries = []wire.Entry{e}
		},
		"two at one place": func(s *sandbox.RunSpec) {
			s.Bundle.Entries = []wire.Entry{inline("x", wire.File, []byte("a")), inline("x", wire.File, []byte("b"))}
		},
	} {
		spec := t.HostileSpec("print", "x")
		change(&spec)
		_, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "%s was run", name)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "%s: %v", name, err)
	}
}

func errorsAreLines(t *T) {
	spec := t.HostileSpec("hang")
	spec.Timeout = t.s.options.Bounds.Short
	_, err := t.Run(spec)
	var e *sandbox.Error
	t.Expect(errors.As(err, &e)).To(gomega.BeTrue(), "%T is no *sandbox.Error", err)
	t.Expect(err.Error()).NotTo(gomega.ContainSubstring("\n"))
	t.Expect(err.Error()).To(gomega.ContainSubstring(t.s.runtime.Name()))
	t.Expect(err.Error()).To(gomega.ContainSubstring(spec.Label.String()))
	t.Expect(len(err.Error())).To(gomega.BeNumerically("<", 1000))
}

func reservedEntries(t *T) {
	for _, name := range wire.Reserved {
		spec := t.HostileSpec("print", "x")
		spec.Bundle.Entries = []wire.Entry{inline(name, wire.File, []byte("x"))}
		_, err := t.Run(spec)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "an entry at %q: %v", name, err)
	}
}
