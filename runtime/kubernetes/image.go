package kubernetes

import (
	"fmt"

	"github.com/distribution/reference"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// ParseImage checks that an image's name is one, as "registry/name:tag" or
// "name@sha256:…", and returns whether it pins the content. An image id is none:
// a node can't pull by it.
func ParseImage(image string) (pinned bool, err error) {
	ref, err := reference.ParseAnyReference(image)
	if err != nil {
		return false, fmt.Errorf("image %.128q is not an image's name: %w", image, err)
	}
	if _, named := ref.(reference.Named); !named {
		return false, fmt.Errorf("image %.128q is an image's id, by which no node can pull", image)
	}
	_, pinned = ref.(reference.Digested)
	return pinned, nil
}

// ImageForms are the names that ParseImage takes, in words.
const ImageForms = "registry/name@sha256:…"

// imageOf is the image of a run: its own, or else the runtime's.
func imageOf(own, fallback string) (string, *sandbox.Error) {
	return bundle.ImageOf(Name, own, fallback, ParseImage, ImageForms)
}
