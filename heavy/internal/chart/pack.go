package chart

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// Published is what a release knows and a checkout does not.
type Published struct {
	// Version is the release's, of the chart and of what it runs.
	Version string
	// Prefix is what the names of all images begin with.
	Prefix string
	// Digests has every image's by its name.
	Digests map[string]string
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	errPrefix  = errors.New("there is no prefix of images' names")
)

// ParseDigests reads NAME=DIGEST.
func ParseDigests(pairs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, pair := range pairs {
		name, digest, _ := strings.Cut(pair, "=")
		if !digestForm.MatchString(digest) {
			return nil, fmt.Errorf("digest %q, want NAME=sha256: and 64 hexadecimal digits", pair)
		}
		all[name] = digest
	}
	return all, nil
}

// Pack writes the archive of a chart with a release's version and images, and
// returns its name. Every image that the chart names has to have been released.
func Pack(dir, out string, p Published) (file string, err error) {
	if p.Prefix == "" {
		return "", errPrefix
	}
	scratch, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.CopyFS(scratch, os.DirFS(dir)); err != nil {
		return "", fmt.Errorf("copying the chart: %w", err)
	}
	version := strings.TrimPrefix(p.Version, "v")
	if err := edit(filepath.Join(scratch, "Chart.yaml"), map[string]string{"version": version, "appVersion": version}); err != nil {
		return "", err
	}
	if err := editImages(filepath.Join(scratch, "values.yaml"), p); err != nil {
		return "", err
	}
	c, err := loader.LoadDir(scratch)
	if err != nil {
		return "", fmt.Errorf("loading the chart: %w", err)
	}
	if err := c.Validate(); err != nil {
		return "", fmt.Errorf("the chart of version %q: %w", p.Version, err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	return chartutil.Save(c, out)
}

func editImages(file string, p Published) error {
	var values struct {
		Images struct{ Digests map[string]string }
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(b, &values); err != nil {
		return err
	}
	changes := map[string]string{"images.prefix": p.Prefix}
	for _, name := range slices.Sorted(maps.Keys(values.Images.Digests)) {
		if p.Digests[name] == "" {
			return fmt.Errorf("the image %s has no digest: was it not released?", name)
		}
		changes["images.digests."+name] = p.Digests[name]
	}
	return edit(file, changes)
}

// edit changes scalars of a YAML file where they stand, and nothing around them.
func edit(file string, changes map[string]string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(b, &document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	for path, value := range changes {
		node := scalarAt(document.Content[0], strings.Split(path, "."))
		if node == nil {
			return fmt.Errorf("%s has no %s to set", filepath.Base(file), path)
		}
		lines[node.Line-1] = lines[node.Line-1][:node.Column-1] + fmt.Sprintf("%q\n", value)
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// scalarAt is the value at a path, nil without one or where it is no scalar.
func scalarAt(mapping *yaml.Node, path []string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		switch {
		case key.Value != path[0]:
		case len(path) > 1 && value.Kind == yaml.MappingNode:
			return scalarAt(value, path[1:])
		case len(path) == 1 && value.Kind == yaml.ScalarNode:
			return value
		}
	}
	return nil
}
