package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/attack"
	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// extractionSpecs are the attack archives, one spec each.
func extractionSpecs() []Spec {
	var specs []Spec
	for _, c := range attack.Cases() {
		specs = append(specs, Spec{
			ID: c.ID, Group: Extraction, Title: c.Name, Why: c.Why, Needs: []Capability{Results},
			check: func(t *T) { unpack(t, c) },
		})
	}
	return specs
}

// unpack hands one attack archive to the target, through the port, and
// compares what became of it with the right answer.
func unpack(t *T, c attack.Case) {
	into := c.Into
	if into == "" {
		into = "pkg"
	}
	content := c.Archive()
	spec := t.HostileSpec("tree", ".")
	spec.Bundle.Artifact = newBlob(content)
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		spec.Bundle.Entries = append(spec.Bundle.Entries, inline(name, wire.File, []byte(c.Inputs[name])))
	}
	entry := artifactEntry(into, wire.Archive, len(content))
	entry.Nested = c.Nested
	spec.Bundle.Entries = append(spec.Bundle.Entries, entry)
	if c.Policy != nil {
		c.Policy(&spec.Bundle.Policy)
	}
	out, err := t.Run(spec)
	t.Expect(err).NotTo(gomega.HaveOccurred(), "an archive is answered about, whatever it is")
	if c.Refused != "" {
		t.Expect(out.Refused()).NotTo(gomega.BeNil(), "not refused; inside there was: %s", clip(string(out.Stdout), 600))
		t.Expect(out.Refused().Rule).To(gomega.Equal(c.Refused), "refused as %q: %s", out.Refused().Entry, out.Refused().Detail)
		t.Expect(out.Refused().Input).To(gomega.Equal(into))
		t.Expect(out.Status).To(gomega.BeNil(), "the scanner ran over a refused archive")
		t.Expect(out.Stdout).To(gomega.BeEmpty())
		return
	}
	t.Expect(out.Refused()).To(gomega.BeNil(), "refused")
	r, err := attempt.Parse(out.Stdout)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	compareTree(t, into, c.Tree, r.Nodes)
	var rules []string
	for _, n := range out.Result.Extraction.Notes {
		rules = append(rules, n.Rule)
	}
	t.Expect(rules).To(gomega.ConsistOf(anys(c.Notes)...), "the deviations that were noted")
	accounts(t, out.Result.Extraction, r.Nodes, c)
}

func compareTree(t *T, into string, want map[string]attack.Node, nodes []attempt.Node) {
	got := map[string]attempt.Node{}
	for _, n := range nodes {
		path := n.Path
		if isTemp(n) {
			continue
		}
		if into != "." {
			rest, below := strings.CutPrefix(n.Path, into+"/")
			if !below {
				t.Expect(n.Path).To(gomega.Equal(into), "something was written beside the archive's directory")
				continue
			}
			path = rest
		}
		got[path] = n
	}
	t.Expect(slices.Sorted(maps.Keys(got))).To(gomega.Equal(slices.Sorted(maps.Keys(want))), "the tree")
	for path, w := range want {
		n := got[path]
		t.Expect(n.Type).To(gomega.Equal(w.Type), "%q", path)
		t.Expect(n.Target).To(gomega.Equal(w.Target), "the target of %q", path)
		switch w.Type {
		case "file":
			t.Expect(n.SHA256).To(gomega.Equal(digestOf(w.Content)), "the content of %q", path)
			t.Expect(n.Mode&0o7111).To(gomega.BeZero(), "%q has mode %o: no set-id and no exec bit", path, n.Mode)
			t.Expect(n.Mode&0o400).NotTo(gomega.BeZero(), "%q has mode %o and can't be read", path, n.Mode)
		case "dir":
			t.Expect(n.Mode&0o500).To(gomega.Equal(uint32(0o500)), "%q has mode %o and can't be searched", path, n.Mode)
			t.Expect(n.Mode&0o7000).To(gomega.BeZero(), "%q has mode %o", path, n.Mode)
		}
	}
}

// accounts compares the result's counters with what is there.
func accounts(t *T, x wire.Extraction, nodes []attempt.Node, c attack.Case) {
	links := int64(0)
	for _, n := range nodes {
		if n.Type == "symlink" {
			links++
		}
	}
	t.Expect(x.Symlinks).To(gomega.Equal(links), "symlinks counted")
	t.Expect(x.Skipped+x.Renamed+x.Replaced+x.Clamped+x.Noted).To(gomega.Equal(int64(len(c.Notes))), "deviations counted: %+v", x)
	t.Expect(x.Archives).To(gomega.BeNumerically(">=", 1))
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// tarGzOf is an ordinary package of a few files.
func tarGzOf(files map[string]string) []byte {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body := files[name]
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body))})
		_, _ = w.Write([]byte(body))
	}
	_ = w.Close()
	_ = g.Close()
	return b.Bytes()
}
