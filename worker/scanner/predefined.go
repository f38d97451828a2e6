package scanner

import (
	"maps"
	"slices"
	"strconv"

	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
)

// artifactPath is where the artifact goes by default.
const artifactPath = "artifact"

// Predefined lists the scanners that need no configuration.
func Predefined() []string { return slices.Sorted(maps.Keys(predefined)) }

var predefined = map[string]Definition{
	"gitleaks":   gitleaks(),
	"guarddog":   {Command: "guarddog", Args: []string{"{ecosystem}", "scan", "{artifact}", "--output-format", "json"}, Findings: format("guarddog")},
	"postmortem": {Command: "postmortem", Findings: format("postmortem")},
	"trivy":      {Command: "trivy", Network: true, Findings: format("trivy")},
}

// gitleaks reads three things out of the tree it scans that would let a
// package hide from it: a .gitleaks.toml, a .gitleaksignore beside the
// scanned directory's entries, and "gitleaks:allow" comments. So it is given a
// configuration of ours, a directory above the artifact, and told to look at
// lines with such comments too. Its status for leaks is not the default 1,
// which is that of its own failures.
func gitleaks() Definition {
	return Definition{
		Command: "gitleaks",
		Args: []string{
			"dir", "--no-banner", "--no-color", "--log-level", "error", "--redact=60", "--ignore-gitleaks-allow",
			"--config", "{work}/gitleaks.toml", "--report-format", "json", "--report-path", "-",
			"--exit-code", strconv.Itoa(findings.GitleaksLeaks), "{work}/scan",
		},
		Layout: Layout{
			Kind: LayoutArchive, Path: wire.MustRelPath("scan/artifact"),
			Files: map[string]string{"gitleaks.toml": "[extend]\nuseDefault = true\n"},
		},
		Findings: format("gitleaks"),
	}
}

func format(name string) findings.Format {
	f, err := findings.Find(name)
	if err != nil {
		panic(err)
	}
	return f
}

// trivyArgs scans the artifact's tree, or the list of components where there
// is one. The database lands in the work directory, the one writable place.
func trivyArgs(d Definition, sbom bool) []string {
	args := []string{"fs"}
	if sbom {
		args = []string{"sbom"}
	}
	args = append(args, "--format", "json", "--quiet", "--skip-version-check")
	if d.Endpoint != "" {
		args = append(args, "--server", d.Endpoint)
	}
	args = append(args, "--cache-dir", "{work}/.trivy")
	if sbom {
		return append(args, "{work}/"+sbomPath)
	}
	return append(args, "--scanners", "vuln", "{artifact}")
}

const sbomPath = "sbom.cdx.json"

// postmortemArgs switches the configuration off that postmortem would load
// from the scanned directory, where a package could suppress its own findings.
func postmortemArgs(d Definition) []string {
	args := []string{"scan", "{work}", "--json", "-o", "-", "--no-config", "--no-progress", "--severity", "critical"}
	if d.Online {
		args = append(args, "--enrich")
	}
	return args
}
