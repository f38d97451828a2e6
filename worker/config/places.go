package config

import (
	"path/filepath"
	"strings"
)

// places are the keys that name a file or a directory of this host.
var places = []string{
	tableSandbox + ".run_dir", tableBwrap + ".rooms", tableCrun + ".rooms", tableKubernetes + ".kubeconfig",
}

// checkPlaces refuses a file or a directory that would be another one wherever
// the worker is started.
func (d *document) checkPlaces() error {
	for _, key := range places {
		path := strings.ReplaceAll(key, ".", sep)
		if err := d.checkPlace(path, d.k.String(path)); err != nil {
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
