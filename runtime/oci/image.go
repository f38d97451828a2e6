package oci

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// ParseImage checks that an image's name is one, by which no engine can take
// it for a flag, a file or another of its transports: a reference as
// "registry/name:tag" or "name@sha256:…", or an image id in full. It returns
// whether the name pins the content.
func ParseImage(image string) (pinned bool, err error) {
	if strings.HasPrefix(image, "-") {
		return false, fmt.Errorf("image %.128q begins with a hyphen", image)
	}
	ref, err := reference.ParseAnyReference(image)
	if err != nil {
		return false, fmt.Errorf("image %.128q is not an image's name: %w", image, err)
	}
	_, pinned = ref.(reference.Digested)
	return pinned, nil
}

// ImageForms are the names that ParseImage takes, in words.
const ImageForms = "registry/name@sha256:…, or an image id as sha256:…"

// imageOf is the image of a run: its own, or else the runtime's.
func imageOf(own, fallback string) (string, *sandbox.Error) {
	return bundle.ImageOf(Name, own, fallback, ParseImage, ImageForms)
}
