// Chart checks, renders, documents and packs the Helm chart where Go alone is there.
//
//	chart lint                          what "helm lint" finds
//	chart template [-f FILE]…           what "helm template" prints
//	chart docs                          writes the table of values in the chart's README anew
//	chart package -version V -prefix P -digest NAME=sha256:… … -out DIR
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/chart"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// many is a flag that may be given more than once.
type many []string

func (m *many) String() string { return strings.Join(*m, " ") }

func (m *many) Set(value string) error {
	*m = append(*m, value)
	return nil
}

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("want lint, template, docs or package")
	}
	var files, digests many
	var p chart.Published
	release := chart.Release{}
	flags := flag.NewFlagSet("chart "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "deploy/chart", "the chart's `directory`")
	out := flags.String("out", "out", "`directory` of the package")
	flags.Var(&files, "f", "`file` of values; may be given more than once")
	flags.StringVar(&release.Name, "name", "batlehub-sandbox", "the release's `name`")
	flags.StringVar(&release.Namespace, "namespace", "default", "the release's `namespace`")
	flags.StringVar(&p.Version, "version", "", "the `version` of chart and images")
	flags.StringVar(&p.Prefix, "prefix", "", "what the images' names `begin` with")
	flags.Var(&digests, "digest", "an image's digest, `NAME=sha256:…`; may be given more than once")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	values, err := chart.Values(files...)
	if err != nil {
		return err
	}
	switch args[0] {
	case "lint":
		if found := chart.Lint(*dir, release, values); len(found) > 0 {
			return errors.New(strings.Join(found, "\n"))
		}
		return nil
	case "template":
		text, err := chart.Render(*dir, release, values)
		if err == nil {
			_, err = io.WriteString(stdout, text)
		}
		return err
	case "docs":
		return chart.WriteReadme(*dir)
	case "package":
		if p.Digests, err = chart.ParseDigests(digests); err != nil {
			return err
		}
		file, err := chart.Pack(*dir, *out, p)
		if err == nil {
			_, err = fmt.Fprintln(stdout, file)
		}
		return err
	}
	return fmt.Errorf("no verb %q: want lint, template, docs or package", args[0])
}
