package scanner

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/findings"
)

// HeadSize is how many bytes of the artifact's beginning a Target wants.
const HeadSize = 512

// Target is what is scanned.
type Target struct {
	Artifact sandbox.Artifact
	// FileName is the artifact's own name, without directories.
	FileName string
	// Head is the artifact's beginning, at most HeadSize bytes.
	Head []byte
	// Package says which package it is; nil when nobody said.
	Package *Package
	// SBOM is a CycloneDX list of its components, nil when there is none.
	SBOM []byte
}

// Base is what all runs of one scan share.
type Base struct {
	// Worker and Job label the runs.
	Worker string
	Job    string
	// Work is the work directory as the scanner names it: "/work" inside
	// walls, "." without.
	Work string
	// Limits bound the scanner, unless its definition says otherwise.
	Limits wire.Limits
	// Policy bounds the extraction.
	Policy wire.ExtractPolicy
	// StartTimeout bounds the time to the fetched bundle.
	StartTimeout time.Duration
	// WorkerImage is the image that the worker was started from, empty where
	// that is not known.
	WorkerImage string
}

// Step is one run, and how its output is read.
type Step struct {
	Spec sandbox.RunSpec
	// Parse reads its output.
	Parse func(findings.Output) (findings.Set, error)
	// Optional says that the scan is whole without this run's answer.
	Optional bool
}

// ErrUnsupported is wrapped when a scanner can't scan this target at all.
var ErrUnsupported = errors.New("not supported by the scanner")

// Plan returns the runs of one scan, in order. Each is an instance of its own.
func (d Definition) Plan(t Target, b Base) ([]Step, error) {
	args, layout, err := d.shape(t)
	if err != nil {
		return nil, err
	}
	if t.Package == nil && slices.ContainsFunc(args, namesPackage) {
		return nil, fmt.Errorf("%w: the arguments of %s name the package; say which it is with --purl", ErrUnsupported, d.Name)
	}
	entries, err := layout.entries(t)
	if err != nil {
		return nil, fmt.Errorf("laying out the artifact: %w", err)
	}
	step := Step{
		Spec:  d.spec(b, layout, args, t),
		Parse: func(o findings.Output) (findings.Set, error) { return d.Findings.Parse(d.Name, o) },
	}
	step.Spec.Bundle.Entries = entries
	if slices.ContainsFunc(entries, func(e wire.Entry) bool { return e.URL == wire.ArtifactURL }) {
		step.Spec.Bundle.Artifact = t.Artifact
	}
	steps := []Step{step}
	if d.Type == "postmortem" && d.Timeline && t.Package != nil && t.Package.Ecosystem == "npm" {
		steps = append(steps, d.timeline(t, b))
	}
	return steps, nil
}

// shape picks arguments and layout where they depend on the target.
func (d Definition) shape(t Target) ([]string, Layout, error) {
	args, layout := d.Args, d.Layout
	switch d.Type {
	case "trivy":
		if args == nil {
			args = trivyArgs(d, t.SBOM != nil)
		}
		if t.SBOM != nil {
			return args, Layout{Kind: LayoutNone, Files: map[string]string{sbomPath: string(t.SBOM)}}, nil
		}
	case "guarddog":
		return args, layout, d.checkEcosystem(t)
	case "postmortem":
		if args == nil {
			args = postmortemArgs(d)
		}
		return d.postmortem(t, args)
	}
	return args, layout, nil
}

func (d Definition) postmortem(t Target, args []string) ([]string, Layout, error) {
	if t.Package == nil {
		return nil, Layout{}, fmt.Errorf("%w: %s has to know which package this is; say it with --purl", ErrUnsupported, d.Name)
	}
	p, known := projectOf(*t.Package)
	if !known {
		return nil, Layout{}, fmt.Errorf("%w: %s has no layout for %s packages", ErrUnsupported, d.Name, t.Package.Ecosystem)
	}
	dir, err := wire.ParseRelPath(p.dir)
	if err != nil {
		return nil, Layout{}, err
	}
	return args, Layout{Kind: LayoutArchive, Path: dir, Files: p.files, Nested: d.Layout.Nested}, nil
}

// guarddogNames are the ecosystems as guarddog names them.
var guarddogNames = map[string]string{"npm": "npm", "pypi": "pypi", "golang": "go"}

func (d Definition) checkEcosystem(t Target) error {
	if t.Package == nil {
		return fmt.Errorf("%w: %s has to know which package this is; say it with --purl", ErrUnsupported, d.Name)
	}
	name := guarddogNames[t.Package.Ecosystem]
	if name == "" || len(d.Ecosystems) > 0 && !slices.Contains(d.Ecosystems, name) {
		return fmt.Errorf("%w: %s is not used for %s packages", ErrUnsupported, d.Name, t.Package.Ecosystem)
	}
	return nil
}

// timeline is postmortem's second step: online, and so without any input.
func (d Definition) timeline(t Target, b Base) Step {
	spec := d.spec(b, Layout{}, []string{"timeline", t.Package.Name, "--json", "-o", "-", "--no-progress"}, Target{})
	spec.Network = true
	spec.Label.Attempt = 2
	version := t.Package.Version
	return Step{
		Spec: spec, Optional: true,
		Parse: func(o findings.Output) (findings.Set, error) { return findings.Timeline(d.Name, version, o) },
	}
}

// Run is a run of this scanner without its input: all that a runtime has to
// provide for it.
func (d Definition) Run(b Base) sandbox.RunSpec { return d.spec(b, d.Layout, nil, Target{}) }

func (d Definition) spec(b Base, l Layout, args []string, t Target) sandbox.RunSpec {
	limits := b.Limits
	limits.AddressSpaceMB = limits.MemoryMB
	if d.AddressSpaceMB != 0 {
		limits.AddressSpaceMB = d.AddressSpaceMB
	}
	return sandbox.RunSpec{
		Bundle:       sandbox.Bundle{Policy: b.Policy},
		Argv:         append([]string{d.Command}, fillIn(args, b.Work, l, t)...),
		StartTimeout: b.StartTimeout, Timeout: d.Timeout,
		Network: d.Network || d.Type == "postmortem" && d.Online, Limits: limits, Image: d.Image,
		Label: wire.Label{Worker: b.Worker, Job: b.Job, Scanner: d.Name, Attempt: 1},
	}
}

// fillIn replaces the placeholders. What is put in is never looked at again,
// so that a package can't name itself "{work}".
func fillIn(args []string, work string, l Layout, t Target) []string {
	pairs := []string{"{work}", work, "{artifact}", path.Join(work, l.Path.String())}
	if p := t.Package; p != nil {
		ecosystem := p.Ecosystem
		if name := guarddogNames[ecosystem]; name != "" {
			ecosystem = name
		}
		pairs = append(pairs, "{ecosystem}", ecosystem, "{name}", p.Name, "{version}", p.Version)
	}
	r := strings.NewReplacer(pairs...)
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = r.Replace(arg)
	}
	return out
}

// namesPackage reports whether an argument needs to know the package.
func namesPackage(arg string) bool {
	return strings.Contains(arg, "{ecosystem}") || strings.Contains(arg, "{name}") || strings.Contains(arg, "{version}")
}

func (l Layout) entries(t Target) ([]wire.Entry, error) {
	var entries []wire.Entry
	if l.Kind == LayoutArchive || l.Kind == LayoutFile {
		if t.Artifact == nil {
			return nil, errors.New("there is no artifact")
		}
		e := wire.Entry{Path: l.Path, Kind: wire.File, URL: wire.ArtifactURL, Size: t.Artifact.Size()}
		if l.Kind == LayoutArchive {
			e.Kind, e.Nested = wire.Archive, l.Nested
			if e.Nested == nil {
				e.Nested = nestedOf(t)
			}
		}
		entries = append(entries, e)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Files)) {
		p, err := wire.ParseRelPath(name)
		if err != nil {
			return nil, err
		}
		content := []byte(l.Files[name])
		entries = append(entries, wire.Entry{Path: p, Kind: wire.File, Inline: content, Size: int64(len(content))})
	}
	return entries, nil
}

// nestedOf asks for the inner archives of a deb and of a gem, in which
// everything that matters is. Content decides, not the name: whoever uploads a
// package chooses its name. A gem is a tar with a data.tar.gz at its top, which
// only the agent may look for. So every artifact that may be a plain tar is
// asked for one if it has it, and one that is called a gem must have it.
func nestedOf(t Target) []wire.Nested {
	named := strings.HasSuffix(strings.ToLower(t.FileName), ".gem")
	switch {
	case bytes.HasPrefix(t.Head, []byte("!<arch>\n")):
		return []wire.Nested{
			{Member: "control.tar*", Into: wire.MustRelPath("control")},
			{Member: "data.tar*", Into: wire.MustRelPath("data")},
		}
	case named || len(t.Head) == HeadSize && !slices.ContainsFunc(packedMagics, func(m string) bool { return bytes.HasPrefix(t.Head, []byte(m)) }):
		return []wire.Nested{{Member: "data.tar.gz", Into: wire.MustRelPath("data"), Optional: !named}}
	}
	return nil
}

// packedMagics begin what can't be a plain tar: zip, gzip, bzip2, xz and zstd.
// The oldest tars have no magic of their own.
var packedMagics = []string{"PK", "\x1f\x8b", "BZh", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"}
