// Package chart renders, checks, documents and packs the Helm chart by Helm's own
// packages, so that nothing but Go has to be there for it.
package chart

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// Release is what a chart is installed as.
type Release struct{ Name, Namespace string }

// Values reads files of values, a later one over an earlier one.
func Values(files ...string) (map[string]any, error) {
	all := map[string]any{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading values: %w", err)
		}
		values, err := loader.LoadValues(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = loader.MergeMaps(all, values)
	}
	return all, nil
}

// Render is what "helm template" prints: every object of the chart in a directory,
// in the order of an installation.
func Render(dir string, release Release, values map[string]any) (string, error) {
	files, err := render(dir, release, values)
	if err != nil {
		return "", err
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", fmt.Errorf("the chart renders what is no object: %w", err)
	}
	var out strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content))
	}
	return out.String(), nil
}

// Notes is what "helm install" says at its end.
func Notes(dir string, release Release, values map[string]any) (string, error) {
	all, err := renderAll(dir, release, values)
	for name, text := range all {
		if isNotes(name) {
			return text, err
		}
	}
	return "", err
}

func isNotes(name string) bool { return strings.HasSuffix(name, "/templates/NOTES.txt") }

// render leaves out what is no object.
func render(dir string, release Release, values map[string]any) (map[string]string, error) {
	files, err := renderAll(dir, release, values)
	for name := range files {
		if isNotes(name) {
			delete(files, name)
		}
	}
	return files, err
}

func renderAll(dir string, release Release, values map[string]any) (map[string]string, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, IsInstall: true, Revision: 1}
	full, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, full)
}

// Lint is what "helm lint" finds above the level of information, a line each.
func Lint(dir string, release Release, values map[string]any) []string {
	var found []string
	for _, m := range lint.RunAll(dir, values, release.Namespace).Messages {
		if m.Severity > support.InfoSev {
			found = append(found, m.Error())
		}
	}
	return found
}
