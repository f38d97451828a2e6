package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// placeKey is a key that names a file or a directory of this host.
type placeKey struct {
	key string
	// runtimes are those that read it. Under any other it is nobody's, as in a file
	// that several hosts share.
	runtimes []string
	// program says that a name without a slash is looked up on PATH.
	program bool
}

var places = []placeKey{
	{key: tableSandbox + ".run_dir", runtimes: []string{"none", "bwrap", "oci"}},
	{key: tableBwrap + ".binary", runtimes: []string{"bwrap"}, program: true},
	{key: tableBwrap + ".rooms", runtimes: []string{"bwrap"}},
	{key: tableOCI + ".binary", runtimes: []string{"oci"}, program: true},
	{key: tableKubernetes + ".kubeconfig", runtimes: []string{"kubernetes"}},
	{key: tableCrun + ".program", runtimes: []string{"crun"}, program: true},
	{key: tableCrun + ".rooms", runtimes: []string{"crun"}},
}

// checkPlaces refuses a file or a directory that would be another one wherever
// the worker is started.
func (d *document) checkPlaces(runtime string) error {
	for _, p := range places {
		path := strings.ReplaceAll(p.key, ".", sep)
		value := d.k.String(path)
		if !slices.Contains(p.runtimes, runtime) || p.program && !strings.Contains(value, "/") {
			continue
		}
		if err := d.checkPlace(path, value); err != nil {
			return err
		}
	}
	return nil
}

// checkPlace refuses one. An empty path is a key's own default, and a flag's is
// seen from where it is typed.
func (d *document) checkPlace(path, value string) error {
	if value == "" || filepath.IsAbs(value) || d.flagged(path) {
		return nil
	}
	return d.refuse(path, "%s = %.128q is relative, and would be another place wherever the worker is started; write the path from the root", dotted(path), value)
}
