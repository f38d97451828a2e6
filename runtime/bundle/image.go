package bundle

import (
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// RefuseImage refuses a run that names an image, for runtimes that have none:
// a name that is silently ignored is a caller that believes it is running
// something else.
func RefuseImage(image string) *sandbox.Error {
	if image == "" {
		return nil
	}
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeConfig,
		Detail: fmt.Sprintf("the run names the image %q, and this runtime runs no images", image),
		Hint:   "leave the image empty, or use the oci or kubernetes runtime",
	}
}
