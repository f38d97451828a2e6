package scanner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Package says which package the artifact is, as its registry names it.
type Package struct {
	// Ecosystem is a package URL's type: npm, pypi, cargo, gem, composer,
	// golang or maven.
	Ecosystem string
	// Name is the whole name, scope or group included.
	Name    string
	Version string
}

// Names and versions end up in argv, in paths and in files that a scanner
// parses, so only what registries allow is let through.
var (
	nameRule    = regexp.MustCompile(`^[A-Za-z0-9@_][A-Za-z0-9@._~+/:-]{0,213}$`)
	versionRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~+:-]{0,127}$`)
)

// ParsePURL reads a package URL, such as pkg:npm/%40scope/name@1.2.3.
func ParsePURL(s string) (Package, error) {
	rest, is := strings.CutPrefix(s, "pkg:")
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	kind, rest, ok := strings.Cut(rest, "/")
	at := strings.LastIndexByte(rest, '@')
	if !is || !ok || at < 1 {
		return Package{}, fmt.Errorf("%.100q is not a package URL with a version, want one like pkg:npm/left-pad@1.3.0", s)
	}
	name, nameErr := url.PathUnescape(rest[:at])
	version, versionErr := url.PathUnescape(rest[at+1:])
	if err := errors.Join(nameErr, versionErr); err != nil {
		return Package{}, fmt.Errorf("package URL %.100q: %w", s, err)
	}
	if kind == "maven" {
		if i := strings.LastIndexByte(name, '/'); i > 0 {
			name = name[:i] + ":" + name[i+1:]
		}
	}
	p := Package{Ecosystem: strings.ToLower(kind), Name: name, Version: version}
	return p, p.validate()
}

func (p Package) validate() error {
	_, err := wire.ParseRelPath(p.Name)
	switch {
	case !nameRule.MatchString(p.Name) || err != nil:
		return fmt.Errorf("package name %.100q has something in it that no registry allows", p.Name)
	case !versionRule.MatchString(p.Version):
		return fmt.Errorf("package version %.100q has something in it that no registry allows", p.Version)
	}
	return nil
}

// project is a directory that postmortem takes for one that depends on the
// package: where the package goes, and files that pin it.
type project struct {
	dir   string
	files map[string]string
}

// projectOf lays a package out the way its ecosystem keeps a dependency. The
// files are made from the name and the version alone; the ecosystem's own tool
// is never run, for that is what runs install scripts.
func projectOf(p Package) (project, bool) {
	n, v := p.Name, p.Version
	switch p.Ecosystem {
	case "npm":
		dependency := map[string]any{n: v}
		return project{"node_modules/" + n, map[string]string{
			"package.json": object("name", "scan", "version", "0.0.0", "dependencies", dependency),
			"package-lock.json": object("name", "scan", "version", "0.0.0", "lockfileVersion", 3, "requires", true,
				"packages", map[string]any{
					"":                  map[string]any{"name": "scan", "version": "0.0.0", "dependencies": dependency},
					"node_modules/" + n: map[string]any{"version": v},
				}),
		}}, true
	case "pypi":
		return project{"site-packages/" + strings.ReplaceAll(n, "-", "_"), map[string]string{"requirements.txt": n + "==" + v + "\n"}}, true
	case "cargo":
		return project{"vendor/" + n + "-" + v, map[string]string{
			"Cargo.toml": fmt.Sprintf("[package]\nname = \"scan\"\nversion = \"0.0.0\"\n\n[dependencies]\n%s = \"=%s\"\n", n, v),
			"Cargo.lock": fmt.Sprintf("version = 4\n\n[[package]]\nname = %q\nversion = %q\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n", n, v),
		}}, true
	case "gem":
		return project{"vendor/bundle/gems/" + n + "-" + v, map[string]string{
			"Gemfile":      fmt.Sprintf("source \"https://rubygems.org\"\ngem %q, %q\n", n, v),
			"Gemfile.lock": fmt.Sprintf("GEM\n  remote: https://rubygems.org/\n  specs:\n    %s (%s)\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n  %s\n", n, v, n),
		}}, true
	}
	return rarerProjectOf(p)
}

func rarerProjectOf(p Package) (project, bool) {
	n, v := p.Name, p.Version
	switch p.Ecosystem {
	case "composer":
		return project{"vendor/" + n, map[string]string{
			"composer.json": object("require", map[string]any{n: v}),
			"composer.lock": object("packages", []any{map[string]any{"name": n, "version": v}}, "packages-dev", []any{}),
		}}, true
	case "golang":
		return project{"vendor/" + n, map[string]string{
			"go.mod": fmt.Sprintf("module scan\n\ngo 1.22\n\nrequire %s %s\n", n, v),
			"go.sum": fmt.Sprintf("%s %s h1:%s=\n", n, v, strings.Repeat("A", 43)),
		}}, true
	case "maven":
		group, artifact, split := strings.Cut(n, ":")
		if !split {
			return project{}, false
		}
		return project{"target/dependency/" + group + "-" + artifact, map[string]string{
			"pom.xml": fmt.Sprintf("<project><modelVersion>4.0.0</modelVersion><groupId>scan</groupId><artifactId>scan</artifactId><version>0.0.0</version>"+
				"<dependencies><dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency></dependencies></project>\n", group, artifact, v),
		}}, true
	}
	return project{}, false
}

// object is a JSON object of the given keys and values. Maps are marshalled
// with their keys in order, so equal packages give equal bytes.
func object(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and maps of them always marshal
	}
	return string(b) + "\n"
}
