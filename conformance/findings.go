package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// findingsPackages is how many packages group F takes at most: its specs have
// stable ids, whatever packages are given.
const findingsPackages = 12

// findingSpecs compare what a real scanner finds with what it finds without
// walls, byte for byte.
func findingSpecs() []Spec {
	why := "A wall that changes what a scanner finds has changed the verdict: each finding is byte for byte what it is without walls, and there is no other."
	specs := []Spec{{ID: "F01", Group: Findings, Title: "a planted secret is found, as without walls", Why: why, Needs: []Capability{Results}, check: plantedSecret}}
	for i := range findingsPackages {
		specs = append(specs, Spec{
			ID: fmt.Sprintf("F%02d", 2+i), Group: Findings, Title: fmt.Sprintf("real package %d has the findings it has without walls", i+1), Why: why,
			Needs: []Capability{Results}, check: func(t *T) { realPackage(t, i) },
		})
	}
	return specs
}

func (t *T) needScanner() {
	if t.s.options.Programs["gitleaks"] == "" {
		t.NotRun("no scanner was given (--gitleaks PATH)")
	}
	if t.s.target.Reference == nil {
		t.NotRun("the target has no reference to compare with")
	}
}

func plantedSecret(t *T) {
	t.needScanner()
	// Two words that only together are a token, so that this file has none.
	token := "ghp_" + "q8Z3nVx71LkTmR" + "bW5cYd0JfGh2PsUaEo4i6K"
	pkg := tarGzOf(map[string]string{
		"package/package.json": `{"name":"planted","version":"1.0.0"}`,
		"package/config.js":    "const token = \"" + token + "\";\n",
	})
	out := sameFindings(t, pkg)
	t.Expect(string(out.Stdout)).To(gomega.ContainSubstring(token), "the planted secret was not found: the comparison is of nothing")
	t.Expect(*out.Status).NotTo(gomega.BeZero(), "a scanner with a finding exits otherwise than one without")
}

func realPackage(t *T, i int) {
	t.needScanner()
	if i >= len(t.s.options.Packages) {
		t.NotRun("no package %d was given (--packages DIR)", i+1)
	}
	name := t.s.options.Packages[i]
	content, err := os.ReadFile(name)
	if err != nil {
		t.Broke("reading a package: %v", err)
	}
	t.note("package", filepath.Base(name)+" sha256:"+digestOf(content))
	sameFindings(t, content)
}

// sameFindings scans one package under the target and under the reference.
func sameFindings(t *T, pkg []byte) sandbox.RunOutput {
	reference, err := t.s.target.Reference(t.ctx, t.s.setup)
	if err != nil {
		t.Broke("making the reference: %v", err)
	}
	t.Cleanup(func() { t.Expect(reference.Close()).To(gomega.Succeed()) })
	spec := func(program string) sandbox.RunSpec {
		s := t.Spec(program, "dir", "pkg", "--no-banner", "--log-level", "error", "--report-format", "json", "--report-path", "-", "--exit-code", "9")
		s.Limits.AddressSpaceMB = wire.AddressSpaceOff
		s.Bundle.Artifact = newBlob(pkg)
		s.Bundle.Entries = []wire.Entry{artifactEntry("pkg", wire.Archive, len(pkg))}
		return s
	}
	out := t.Exited(spec(t.Program("gitleaks")))
	bare := spec(t.s.setup.Programs["gitleaks"])
	bare.Image = "" // the reference has no room
	want, err := reference.Run(t.ctx, bare)
	if err != nil || want.Status == nil {
		t.Broke("the reference has no answer: %v", err)
	}
	t.Expect(inOrder(out.Stdout)).To(gomega.Equal(inOrder(want.Stdout)), "the findings")
	t.Expect(*out.Status).To(gomega.Equal(*want.Status), "the status")
	t.Expect(strings.TrimSpace(string(out.Stdout))).NotTo(gomega.BeEmpty(), "the scanner printed nothing at all")
	return out
}

// inOrder sorts the findings of a report, each of them as it is byte for byte:
// the scanner works on files at once and lists them as it gets done, so that
// it does not agree with itself on their order.
func inOrder(stdout []byte) string {
	var list []json.RawMessage
	if json.Unmarshal(stdout, &list) != nil {
		return string(stdout)
	}
	texts := make([]string, len(list))
	for i, finding := range list {
		texts[i] = string(finding)
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}
