package config

import (
	"path/filepath"
	"testing"
)

// The examples that a Compose-style host starts from load without a warning,
// and name every image by its digest.
func TestTheComposeExamplesLoad(t *testing.T) {
	for file, transport := range map[string]string{
		filepath.Join("testdata", "compose.toml"):                     "mount",
		filepath.Join("..", "..", "deploy", "compose", "config.toml"): "storage",
	} {
		c, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Worker.Sandbox
		if s.Runtime != "oci" || s.OCI.Transport != transport || len(c.Warnings) != 0 || len(c.Scanners) == 0 {
			t.Errorf("%s: %+v, warnings %v", file, s, c.Warnings)
		}
		for name, scanner := range c.Scanners {
			if len(scanner.Image) < 71 || scanner.Image[len(scanner.Image)-71:len(scanner.Image)-64] != "sha256:" {
				t.Errorf("%s: the image of %s is %q", file, name, scanner.Image)
			}
		}
	}
}
