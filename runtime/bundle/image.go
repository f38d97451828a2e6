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

// ImageOf is the image of a run: its own, or else the runtime's. Nothing else
// takes its place. parse is the runtime's own rule of names, and forms the words
// for them.
func ImageOf(runtime, own, fallback string, parse func(string) (pinned bool, err error), forms string) (string, *sandbox.Error) {
	image := own
	if image == "" {
		image = fallback
	}
	if image == "" {
		return "", &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeConfig, Detail: "no image is configured for this run",
			Hint: fmt.Sprintf("set [scanners.<name>] image or [worker.sandbox.%s] image, or start the worker with BATLEHUB_IMAGE", runtime),
		}
	}
	if _, err := parse(image); err != nil {
		return "", &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err, Hint: "name an image as " + forms}
	}
	return image, nil
}
