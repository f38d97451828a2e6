package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scan"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

type scanFlags struct {
	scanners []string
	format   string
	purl     string
	sbom     string
}

func (a *app) scanCommand() *cobra.Command {
	var f scanFlags
	c := &cobra.Command{
		Use: "scan ARTIFACT", Short: "Scan one package file in proven sandboxes", Args: exactly(1, "the artifact"),
		Long: `Probes the room of every scanner, and then runs each scanner over the artifact,
one sandbox per run. Prints the findings and the walls that were seen.

Exit status: 0 clean, 1 findings, 3 no answer from a scanner or a sandbox,
4 the artifact was refused. Of several the highest but one counts: an answer
that is missing outweighs all, a refusal outweighs findings.`,
		Example: `  sandboxctl scan --scanner gitleaks left-pad-1.3.0.tgz
  sandboxctl scan --config config.toml --format json --purl pkg:npm/left-pad@1.3.0 left-pad-1.3.0.tgz`,
		RunE: func(c *cobra.Command, args []string) error { return a.scan(c, args[0], f) },
	}
	c.Flags().StringArrayVar(&f.scanners, "scanner", nil, "`name` of a scanner; may be given more than once (default: all that are configured)")
	c.Flags().StringVar(&f.format, "format", "table", "`form` of the output: table or json")
	c.Flags().StringVar(&f.purl, "purl", "", "package `URL` of the artifact, such as pkg:npm/left-pad@1.3.0, for scanners that need to know")
	c.Flags().StringVar(&f.sbom, "sbom", "", "`file` with a CycloneDX list of the artifact's components, for scanners that read one")
	return c
}

func checkFormat(format string) error {
	if format != "table" && format != "json" {
		return usagef("--format %q is not known; one of table, json", format)
	}
	return nil
}

func (a *app) scan(c *cobra.Command, path string, f scanFlags) (err error) {
	if err := checkFormat(f.format); err != nil {
		return err
	}
	if path == "" {
		return usagef("the artifact's name is empty; usage: %s", c.UseLine())
	}
	conf, definitions, err := a.prepare(f.scanners)
	if err != nil {
		return err
	}
	target, err := f.target(c, path, conf.Worker.Sandbox.MaxArtifactMB)
	if err != nil {
		return err
	}
	s, err := a.openWith(c.Context(), conf, definitions)
	if err != nil {
		return err
	}
	defer func() { err = s.end(err) }()
	progress := ui.NewProgress(a.stderr)
	report, err := scan.Do(c.Context(), scan.Request{
		Runtime: s.Runtime, Scanners: s.scanners, Target: target, Base: s.base, Progress: progress.Start,
	})
	progress.Stop()
	for _, w := range report.Warnings {
		s.left = true
		a.say("sandboxctl: warning: %s", w)
	}
	if c.Context().Err() != nil {
		return cmp.Or(err, context.Cause(c.Context()))
	}
	// A table of a scan that did not take place would say less than the
	// refusal does.
	if f.format == "json" || err == nil {
		if err := printScan(a.stdout, report, f.format); err != nil {
			return err
		}
	}
	if err != nil {
		return a.refusal(err)
	}
	return a.scanStatus(report)
}

func (f scanFlags) target(c *cobra.Command, path string, maxMB int64) (scanner.Target, error) {
	var p *scanner.Package
	if f.purl != "" {
		parsed, err := scanner.ParsePURL(f.purl)
		if err != nil {
			return scanner.Target{}, usagef("--purl: %s", err)
		}
		p = &parsed
	}
	var sbom []byte
	if f.sbom != "" {
		var err error
		if sbom, err = readSmall(f.sbom, wire.InlineCap); err != nil {
			return scanner.Target{}, usagef("--sbom: %s", err)
		}
	}
	t, err := openTarget(c.Context(), path, maxMB)
	t.Package, t.SBOM = p, sbom
	return t, err
}

func printScan(w io.Writer, r scan.Report, format string) error {
	if format == "json" {
		return ui.JSON(w, r)
	}
	return printReport(w, r)
}

// scanStatus turns a report's verdict into a status, with a line for each
// scanner that gave no answer.
func (a *app) scanStatus(r scan.Report) error {
	switch r.Verdict {
	case scan.Findings:
		return quiet(ExitFindings)
	case scan.Refused:
		return quiet(ExitRefused)
	case scan.Failed:
		for _, s := range r.Scanners {
			if s.Verdict == scan.Failed {
				a.say("sandboxctl: could not scan: %s: %s", s.Name, s.Error)
			}
		}
		return quiet(ExitFailed)
	case scan.Clean:
		return nil
	}
	return fmt.Errorf("a scan can't come to %q", r.Verdict)
}
