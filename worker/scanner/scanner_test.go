package scanner

import (
	"errors"
	"go/build"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
)

func base() Base {
	return Base{
		Worker: "w", Job: "j", Work: "/work", Limits: wire.DefaultLimits(), Policy: wire.DefaultExtractPolicy(), StartTimeout: 120 * time.Second,
	}
}

func define(t *testing.T, c config.Scanner) Definition {
	t.Helper()
	d, err := Define(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func target() Target {
	return Target{Artifact: bundle.BytesArtifact([]byte("bytes")), FileName: "x.tgz", Head: []byte("bytes")}
}

func purl(t *testing.T, s string) *Package {
	t.Helper()
	p, err := ParsePURL(s)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func plan(t *testing.T, d Definition, target Target) []Step {
	t.Helper()
	steps, err := d.Plan(target, base())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		valid(t, s.Spec)
	}
	return steps
}

// valid puts the spec into a manifest, as a runtime would.
func valid(t *testing.T, s sandbox.RunSpec) {
	t.Helper()
	entries := slices.Clone(s.Bundle.Entries)
	for i := range entries {
		if entries[i].URL == wire.ArtifactURL {
			entries[i].URL = "file:///work/in/0"
		}
	}
	m := wire.Manifest{
		Wire: wire.Version, Label: s.Label, Entries: entries, Policy: s.Bundle.Policy, Argv: s.Argv,
		Limits: s.Limits, TimeoutMS: s.Timeout.Milliseconds(), SealKey: wire.NewSealKey(),
	}
	if err := m.Validate(); err != nil {
		t.Errorf("%s: %v", s.Label, err)
	}
}

func argv(s Step) string { return strings.Join(s.Spec.Argv, " ") }

func paths(s Step) string {
	var all []string
	for _, e := range s.Spec.Bundle.Entries {
		all = append(all, string(e.Kind)+" "+e.Path.String())
	}
	return strings.Join(all, ", ")
}

func TestGitleaksIsToldToIgnoreWhatAPackageWouldHideWith(t *testing.T) {
	s := plan(t, define(t, config.Scanner{Name: "gitleaks"}), target())[0]
	want := "gitleaks dir --no-banner --no-color --log-level error --redact=60 --ignore-gitleaks-allow --config /work/gitleaks.toml " +
		"--report-format json --report-path - --exit-code 3 /work/scan"
	if argv(s) != want || paths(s) != "archive scan/artifact, file gitleaks.toml" || s.Spec.Network {
		t.Errorf("argv %s\nwant %s\npaths %s", argv(s), want, paths(s))
	}
}

func TestTrivyGetsTheArtifactOrTheSBOMAndKeepsItsDatabaseInTheWorkDirectory(t *testing.T) {
	d := define(t, config.Scanner{Name: "trivy"})
	tree := plan(t, d, target())[0]
	if want := "trivy fs --format json --quiet --skip-version-check --cache-dir /work/.trivy --scanners vuln /work/artifact"; argv(tree) != want {
		t.Errorf("argv %s\nwant %s", argv(tree), want)
	}
	if paths(tree) != "archive artifact" || !tree.Spec.Network || tree.Spec.Bundle.Artifact == nil {
		t.Errorf("%s, network %v", paths(tree), tree.Spec.Network)
	}
	with := target()
	with.SBOM = []byte(`{"bomFormat":"CycloneDX"}`)
	sbom := plan(t, d, with)[0]
	if want := "trivy sbom --format json --quiet --skip-version-check --cache-dir /work/.trivy /work/sbom.cdx.json"; argv(sbom) != want {
		t.Errorf("argv %s\nwant %s", argv(sbom), want)
	}
	if paths(sbom) != "file sbom.cdx.json" || sbom.Spec.Bundle.Artifact != nil || string(sbom.Spec.Bundle.Entries[0].Inline) != string(with.SBOM) {
		t.Errorf("%s %+v", paths(sbom), sbom.Spec.Bundle)
	}
	server := plan(t, define(t, config.Scanner{Name: "trivy", Endpoint: "http://trivy:4954"}), target())[0]
	if !strings.Contains(argv(server), " --server http://trivy:4954 --cache-dir /work/.trivy ") {
		t.Errorf("argv %s", argv(server))
	}
}

func TestPostmortemScansOfflineAndReadsTheTimelineOnlineWithoutTheArtifact(t *testing.T) {
	with := target()
	with.Package = purl(t, "pkg:npm/%40scope/left-pad@1.3.0")
	steps := plan(t, define(t, config.Scanner{Name: "postmortem", Timeline: true}), with)
	if len(steps) != 2 {
		t.Fatalf("%d runs, want 2", len(steps))
	}
	scan, timeline := steps[0], steps[1]
	if want := "postmortem scan /work --json -o - --no-config --no-progress --severity critical"; argv(scan) != want || scan.Spec.Network || scan.Optional {
		t.Errorf("argv %s, network %v", argv(scan), scan.Spec.Network)
	}
	if paths(scan) != "archive node_modules/@scope/left-pad, file package-lock.json, file package.json" {
		t.Errorf("paths %s", paths(scan))
	}
	if lock := string(scan.Spec.Bundle.Entries[1].Inline); !strings.Contains(lock, `"node_modules/@scope/left-pad":{"version":"1.3.0"}`) {
		t.Errorf("lockfile %s", lock)
	}
	if want := "postmortem timeline @scope/left-pad --json -o - --no-progress"; argv(timeline) != want || !timeline.Spec.Network || !timeline.Optional {
		t.Errorf("argv %s, network %v", argv(timeline), timeline.Spec.Network)
	}
	if b := timeline.Spec.Bundle; len(b.Entries) != 0 || b.Artifact != nil {
		t.Errorf("the timeline's bundle is not empty: %+v", b)
	}
	if timeline.Spec.Label == scan.Spec.Label {
		t.Errorf("both runs are labelled %s", scan.Spec.Label)
	}
	if off := plan(t, define(t, config.Scanner{Name: "postmortem"}), with); len(off) != 1 {
		t.Errorf("%d runs without timeline, want 1", len(off))
	}
}

func TestPostmortemHasALayoutForEachOfItsEcosystems(t *testing.T) {
	d := define(t, config.Scanner{Name: "postmortem"})
	for _, c := range []struct{ purl, paths string }{
		{"pkg:npm/x@1.0.0", "archive node_modules/x, file package-lock.json, file package.json"},
		{"pkg:pypi/a-b@1.0.0", "archive site-packages/a_b, file requirements.txt"},
		{"pkg:cargo/x@1.0.0", "archive vendor/x-1.0.0, file Cargo.lock, file Cargo.toml"},
		{"pkg:gem/x@1.0.0", "archive vendor/bundle/gems/x-1.0.0, file Gemfile, file Gemfile.lock"},
		{"pkg:composer/v/x@1.0.0", "archive vendor/v/x, file composer.json, file composer.lock"},
		{"pkg:golang/rsc.io/quote@v1.5.2", "archive vendor/rsc.io/quote, file go.mod, file go.sum"},
		{"pkg:maven/org.x/y@1.0.0", "archive target/dependency/org.x-y, file pom.xml"},
	} {
		with := target()
		with.Package = purl(t, c.purl)
		s := plan(t, d, with)[0]
		if paths(s) != c.paths {
			t.Errorf("%s: %s, want %s", c.purl, paths(s), c.paths)
		}
		pinned := false
		for _, e := range s.Spec.Bundle.Entries[1:] {
			pinned = pinned || strings.Contains(string(e.Inline), with.Package.Version)
		}
		if !pinned {
			t.Errorf("%s: no file pins the version", c.purl)
		}
	}
}

func TestGuarddogIsToldTheEcosystem(t *testing.T) {
	d := define(t, config.Scanner{Name: "guarddog", Ecosystems: []string{"npm", "go"}})
	with := target()
	with.Package = purl(t, "pkg:golang/x/y@v1.0.0")
	if s := plan(t, d, with)[0]; argv(s) != "guarddog go scan /work/artifact --output-format json" {
		t.Errorf("argv %s", argv(s))
	}
	for _, p := range []*Package{nil, purl(t, "pkg:pypi/x@1"), purl(t, "pkg:cargo/x@1")} {
		with.Package = p
		if _, err := d.Plan(with, base()); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestDebsAndGemsAreUnpackedToTheirInsideWhateverTheirName(t *testing.T) {
	tar := make([]byte, HeadSize)
	copy(tar[257:], "ustar\x0000")
	for name, c := range map[string]struct {
		file     string
		head     []byte
		want     int
		optional bool
	}{
		"a deb":                {"x.deb", []byte("!<arch>\ndebian-binary"), 2, false},
		"a deb named tgz":      {"x.tgz", []byte("!<arch>\n"), 2, false},
		"a gem":                {"x.gem", tar, 1, false},
		"a gem with no name":   {"x", tar, 1, true},
		"a tar":                {"x.tar", tar, 1, true},
		"a gem of old tar":     {"X.GEM", make([]byte, HeadSize), 1, false},
		"an old tar":           {"x", make([]byte, HeadSize), 1, true},
		"a gzip":               {"x.tgz", []byte("\x1f\x8b\x08"), 0, false},
		"a gzip of some size":  {"x.tgz", append([]byte("\x1f\x8b\x08"), tar[3:]...), 0, false},
		"an xz of some size":   {"x.tar", append([]byte("\xfd7zXZ\x00"), tar[6:]...), 0, false},
		"nothing in it":        {"x", nil, 0, false},
		"a zip named as such":  {"x.whl", []byte("PK\x03\x04"), 0, false},
		"a wheel of some size": {"x.tar", append([]byte("PK\x03\x04"), tar[4:]...), 0, false},
	} {
		with := target()
		with.FileName, with.Head = c.file, c.head
		got := plan(t, define(t, config.Scanner{Name: "x", Command: "x"}), with)[0].Spec.Bundle.Entries[0].Nested
		if len(got) != c.want {
			t.Errorf("%s: %v, want %d inner archives", name, got, c.want)
		}
		for _, n := range got {
			if n.Optional != c.optional {
				t.Errorf("%s: %+v, want one that may be missing: %t", name, n, c.optional)
			}
		}
	}
}

func TestAScannerOfOnesOwnIsConfigurationAlone(t *testing.T) {
	network := true
	d := define(t, config.Scanner{
		Name: "mine", Command: "/usr/bin/mine", Args: []string{"--in", "{artifact}", "{name}@{version}", "{work}", "$(id); *"},
		Layout:  &config.Layout{Kind: "file", Path: "pkg/in.bin", Files: map[string]string{"rules/a.txt": "r"}},
		Timeout: time.Second, Network: &network, Findings: "lines", AddressSpaceMB: -1,
	})
	with := target()
	with.Package = purl(t, "pkg:npm/x@1.0.0")
	s := plan(t, d, with)[0]
	if want := "/usr/bin/mine --in /work/pkg/in.bin x@1.0.0 /work $(id); *"; argv(s) != want {
		t.Errorf("argv %s\nwant %s", argv(s), want)
	}
	if paths(s) != "file pkg/in.bin, file rules/a.txt" || !s.Spec.Network || s.Spec.Timeout != time.Second ||
		s.Spec.Limits.AddressSpaceMB != -1 || s.Spec.Limits.MemoryMB != 2048 {
		t.Errorf("%s %+v", paths(s), s.Spec)
	}
	set, err := s.Parse(findings.Output{Status: new(int), Stdout: []byte("hit\n")})
	if err != nil || set.Total != 1 || set.Findings[0].Scanner != "mine" {
		t.Errorf("%+v %v", set, err)
	}
	if _, err := d.Plan(target(), base()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a package: %v", err)
	}
}

func TestWithoutWallsTheWorkDirectoryIsTheWorkingDirectory(t *testing.T) {
	b := base()
	b.Work = "."
	steps, err := define(t, config.Scanner{Name: "trivy"}).Plan(target(), b)
	if err != nil || !strings.HasSuffix(argv(steps[0]), "--cache-dir ./.trivy --scanners vuln artifact") {
		t.Errorf("%v %v", steps, err)
	}
}

func TestADefinitionThatCantBeIsRefusedWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		s    config.Scanner
		want string
	}{
		{config.Scanner{Name: "x", File: "c.toml", Line: 3}, "c.toml:3: scanner 'x' has no command; set [scanners.x] command, or type to one of gitleaks, guarddog, postmortem, trivy"},
		{config.Scanner{Name: "x", Type: "yara", File: "c.toml", Line: 4}, `c.toml:4: type "yara" of scanner 'x' is not known; one of gitleaks, guarddog, postmortem, trivy, command`},
		{config.Scanner{Name: "x", Command: "x", Findings: "sarif"}, `scanner 'x': findings format "sarif" is not known; one of gitleaks, trivy, guarddog, postmortem, lines, status`},
		{config.Scanner{Name: "x", Command: "x", Layout: &config.Layout{Kind: "file", Path: "."}}, "layout of scanner 'x': a file needs a path"},
	} {
		if _, err := Define(c.s); err == nil || err.Error() != c.want || !config.IsConfig(err) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestScannersThatRunNoArtifactCodeNeedNoSandbox(t *testing.T) {
	for name, want := range map[string]bool{"osv": false, "mlab": false, "sigstore": false, "socket": false, "trivy": true, "mine": true} {
		if got := Needed(config.Scanner{Name: name}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if Needed(config.Scanner{Name: "advisories", Type: "osv"}) || !Needed(config.Scanner{Name: "osv", Command: "osv-scanner"}) {
		t.Error("a type or a command of one's own is not what decides")
	}
}

func TestPackageURLs(t *testing.T) {
	for s, want := range map[string]Package{
		"pkg:npm/left-pad@1.3.0":            {"npm", "left-pad", "1.3.0"},
		"pkg:npm/%40a/b@1.0.0-rc.1+x?y=z#q": {"npm", "@a/b", "1.0.0-rc.1+x"},
		"pkg:maven/org.a/b@2":               {"maven", "org.a:b", "2"},
		"pkg:golang/rsc.io/quote@v1.5.2":    {"golang", "rsc.io/quote", "v1.5.2"},
		"pkg:gem/x@0.1":                     {"gem", "x", "0.1"},
	} {
		if got, err := ParsePURL(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "left-pad", "pkg:npm/left-pad", "pkg:npm/@1", "pkg:npm@1", "npm/x@1", "pkg:npm/..%2f..%2fx@1", "pkg:npm/-o@1", "pkg:npm/x@-1",
		"pkg:npm/x%0ay@1", "pkg:npm/x@1%22", "pkg:npm/a//b@1", "pkg:npm/%zz@1", "pkg:npm/%2fetc@1", "pkg:npm/x y@1", "pkg:cargo/x%22@1",
		"pkg:npm/" + strings.Repeat("x", 300) + "@1",
	} {
		if got, err := ParsePURL(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

// A scanner describes a run and never makes one.
func TestScannersImportThePortAndStartNoProcess(t *testing.T) {
	for _, dir := range []string{".", "../findings", "../scan"} {
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			if path == "os/exec" || path == "os" || path == "net" || path == "net/http" {
				t.Errorf("%s imports %s", dir, path)
			}
			if strings.Contains(path, "/runtime/") && !strings.HasSuffix(path, "/runtime/sandbox") {
				t.Errorf("%s imports %s, and only the port is allowed", dir, path)
			}
		}
	}
}
