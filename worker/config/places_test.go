package config

import (
	"slices"
	"testing"
)

// A file that hosts of several runtimes share has paths that are nobody's on this
// one.
func TestAPathThatTheRuntimeDoesNotReadMayBeRelative(t *testing.T) {
	const (
		bwrap      = "[worker.sandbox.bwrap]\nbinary = \"./bwrap\"\nrooms = \"rooms\"\n"
		engine     = "[worker.sandbox.oci]\nbinary = \"bin/podman\"\n"
		kubernetes = "[worker.sandbox.kubernetes]\nkubeconfig = \"config\"\n"
		crun       = "[worker.sandbox.crun]\nprogram = \"./runc\"\nrooms = \"../rooms\"\n"
		unused     = "[storage.backends.a]\ntype = \"s3\"\nbucket = \"bundles\"\nca_file = \"ca.pem\"\n"
		used       = "[storage.backends.a]\ntype = \"s3\"\nbucket = \"bundles\"\nca_file = \"/ca.pem\"\n"
		runDir     = "run_dir = \"runs\"\n"
	)
	for runtime, text := range map[string]string{
		"none":       bwrap + engine + kubernetes + crun + unused,
		"bwrap":      engine + kubernetes + crun + unused,
		"oci":        bwrap + kubernetes + crun + unused,
		"kubernetes": runDir + bwrap + engine + crun + used,
		"crun":       runDir + bwrap + engine + kubernetes + unused,
	} {
		if slices.Contains(absent, runtime) {
			continue
		}
		if _, err := Load(write(t, "config.toml", "[worker.sandbox]\nruntime = \""+runtime+"\"\n"+text)); err != nil {
			t.Errorf("%s: %v", runtime, err)
		}
	}
}

// Of a directory that is the registry's alone nothing is opened here.
func TestAFilesystemBackendMayBeRelative(t *testing.T) {
	c := load(t, "[storage.backends.a]\ntype = \"filesystem\"\npath = \"data\"\n")
	if got := c.Storage.Backends["a"].Path; got != "data" {
		t.Errorf("path %q", got)
	}
}
