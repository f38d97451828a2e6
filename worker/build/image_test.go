package build

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

const someOCI = "[worker.sandbox]\nruntime = \"oci\"\n"

// An image that could not be named to the engine is found at load, where it was
// written.
func TestAnImageThatIsNoNameIsRefusedWhereItIsWritten(t *testing.T) {
	const want = "; want registry/name@sha256:…, or an image id as sha256:…"
	for _, c := range []struct{ name, text, want string }{
		{"a scanner's", someOCI + "[scanners.x]\ncommand = \"x\"\nimage = \"my image\"\n", `:5: scanner 'x': image "my image" is not an image's name: invalid reference format` + want},
		{"capitals", someOCI + "[scanners.x]\nimage = \"Scanner:1\"\n", `:4: scanner 'x': image "Scanner:1" is not an image's name: invalid reference format: repository name (library/Scanner) must be lowercase` + want},
		{"a digest that is short", someOCI + "[scanners.x]\nimage = \"scanner@sha256:00\"\n", `:4: scanner 'x': image "scanner@sha256:00" is not an image's name: invalid reference format` + want},
		{"a flag of the engine's", someOCI + "[scanners.x]\nimage = \"-v=/:/host\"\n", `:4: scanner 'x': image "-v=/:/host" begins with a hyphen` + want},
		{"the runtime's", someOCI + "[worker.sandbox.oci]\nimage = \"https://registry.example/x\"\n", `:4: image "https://registry.example/x" is not an image's name: invalid reference format` + want},
		{"a name", someOCI + "[worker.sandbox.oci]\nimage = \"registry.example:5000/a/b:c\"\n[scanners.x]\nimage = \"x\"\n", ""},
		{"no name", someOCI + "[worker.sandbox.oci]\nimage = \"\"\n[scanners.x]\nimage = \"\"\n", ""},
		{"another runtime's", "[worker.sandbox.oci]\nimage = \"my image\"\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) { checkImages(t, c.text, c.want) })
	}
}

// checkImages loads a configuration and compares what is said of its images
// behind the file's name.
func checkImages(t *testing.T, text, want string) {
	t.Helper()
	c, file := read(t, text)
	err := CheckImages(c)
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (!config.IsConfig(err) || err.Error() != file+want):
		t.Errorf("got  %v\nwant %s%s", err, file, want)
	}
}

func TestAnImageOfTheCommandLineIsBlamedOnItsFlag(t *testing.T) {
	c, _ := read(t, someOCI+"[worker.sandbox.oci]\nimage = \"x\"\n", config.Override{Flag: "--image", Key: "worker.sandbox.oci.image", Value: "a b"})
	const want = `--image: image "a b" is not an image's name: invalid reference format; want registry/name@sha256:…, or an image id as sha256:…`
	if err := CheckImages(c); !config.IsConfig(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// The worker's own image is read by nobody but a scanner that names none.
func TestAWorkersImageThatIsNoNameIsBlamedOnItsVariable(t *testing.T) {
	images := Images{Worker: "a b", Runtime: "oci"}
	if image, err := images.Of("gitleaks", "x"); err != nil || image != "x" {
		t.Errorf("%q, %v", image, err)
	}
	const want = `BATLEHUB_IMAGE: image "a b" is not an image's name: invalid reference format; want registry/name@sha256:…, or an image id as sha256:…`
	if _, err := images.Of("gitleaks", ""); !config.IsConfig(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
