package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func argvVerbatim(t *T) {
	args := []string{"", " ", "a b", "$HOME", "`id`", "*", "'", `"`, `\`, "ünï", "-x", "--", "a\nb", ";", "|cat", "\xff"}
	r := t.Hostile("environment", args...)
	// Bytes that are not UTF-8 can't be in the report's JSON as they are.
	want := slices.Clone(args)
	want[len(want)-1] = "\uFFFD"
	t.Expect(r.Values["argv"][2:]).To(gomega.Equal(want))
}

func environmentIsTwo(t *T) {
	r := t.Hostile("environment")
	var names []string
	for _, kv := range r.Values["environ"] {
		name, value, _ := strings.Cut(kv, "=")
		names = append(names, name)
		t.Expect(value).NotTo(gomega.BeEmpty(), "%s is empty", name)
	}
	t.Expect(names).To(gomega.ConsistOf("HOME", "PATH"))
	t.Expect(r.Values["environ"]).To(gomega.ContainElement("HOME="+r.Values["cwd"][0]), "HOME is the working directory")
}

func inlineFiles(t *T) {
	big := randomBytes(300_000)
	spec := t.HostileSpec("tree", ".")
	spec.Bundle.Entries = []wire.Entry{
		inline("a.txt", wire.File, []byte("a")), inline("deep/er/b.bin", wire.File, big),
		inline("empty", wire.File, nil), inline("ünï code", wire.File, []byte("u")),
	}
	nodes := map[string]attempt.Node{}
	for _, n := range t.HostileRun(spec).Nodes {
		nodes[n.Path] = n
	}
	for path, content := range map[string][]byte{"a.txt": []byte("a"), "deep/er/b.bin": big, "empty": nil, "ünï code": []byte("u")} {
		t.Expect(nodes[path].Type).To(gomega.Equal("file"), "%s", path)
		t.Expect(nodes[path].SHA256).To(gomega.Equal(digestOf(content)), "%s", path)
	}
	for path := range nodes {
		if isTemp(nodes[path]) {
			continue
		}
		t.Expect([]string{"a.txt", "deep", "deep/er", "deep/er/b.bin", "empty", "ünï code"}).To(gomega.ContainElement(path), "the work directory holds more than the inputs")
	}
}

func artifactWhole(t *T) {
	content := randomBytes(3<<20 + 17)
	spec := t.HostileSpec("tree", ".")
	spec.Bundle.Artifact = newBlob(content)
	spec.Bundle.Entries = []wire.Entry{artifactEntry("pkg/artifact.bin", wire.File, len(content))}
	nodes := t.HostileRun(spec).Nodes
	t.Expect(slices.ContainsFunc(nodes, func(n attempt.Node) bool {
		return n.Path == "pkg/artifact.bin" && n.SHA256 == digestOf(content)
	})).To(gomega.BeTrue(), "the artifact is not inside as it is outside")
}

func artifactSizeLies(t *T) {
	content := randomBytes(10_000)
	for _, claimed := range []int64{9_999, 10_001, 0} {
		spec := t.HostileSpec("print", "an answer")
		spec.Bundle.Artifact = blob{content, claimed}
		spec.Bundle.Entries = []wire.Entry{artifactEntry("artifact.bin", wire.File, int(claimed))}
		out, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "an artifact of 10000 bytes that claims %d was scanned: %q", claimed, out.Stdout)
	}
}

func bigRequests(t *T) {
	spec := t.HostileSpec("environment", strings.Repeat("x", 100<<10))
	for i := range wire.EntryCountCap {
		spec.Bundle.Entries = append(spec.Bundle.Entries, inline(fmt.Sprintf("d%d/f", i), wire.File, randomBytes(1000)))
	}
	r := t.HostileRun(spec)
	t.Expect(r.Values["argv"][2]).To(gomega.HaveLen(100 << 10))
}

func emptyBundle(t *T) {
	r := t.Hostile("tree", ".")
	for _, n := range r.Nodes {
		t.Expect(isTemp(n)).To(gomega.BeTrue(), "the work directory of an empty bundle holds %s", n.Path)
	}
}

// isTemp says whether something of the work directory is the one for temporary
// files. A runtime may have empty directories in that.
func isTemp(n attempt.Node) bool {
	return n.Path == "tmp" || n.Type == "dir" && strings.HasPrefix(n.Path, "tmp/")
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// randomBytes are the same in every run of the suite, and compress to nothing.
func randomBytes(n int) []byte {
	source := rand.NewChaCha8([32]byte{1, 2, 3})
	b := make([]byte, n)
	_, _ = source.Read(b)
	return b
}
