package build

import (
	"fmt"

	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// ImageVariable names the image that the worker was started from. The
// worker's images set it.
const ImageVariable = "BATLEHUB_IMAGE"

// Images says which image a run is opened from.
type Images struct {
	// Configured is the runtime's own, Worker the worker's; each may be empty.
	Configured, Worker string
	// Runtime is the runtime's name, which is that of its table.
	Runtime string
}

// Of is the image that a scanner runs in: its own, else the runtime's, else
// the worker's. Nothing else takes its place (RFC 0022 §4.2).
func (i Images) Of(scanner, own string) (string, error) {
	for _, image := range []string{own, i.Configured, i.Worker} {
		if image != "" {
			return image, nil
		}
	}
	return "", &config.Error{Message: fmt.Sprintf(
		"there is no image to run scanner '%s' in; set [scanners.%s] image or [worker.sandbox.%s] image, or start the worker with %s", scanner, scanner, i.Runtime, ImageVariable)}
}

// IsWorkers says that an image is the worker's own, in which a shell and the
// worker's program are to be expected.
func (i Images) IsWorkers(image string) bool { return image != "" && image == i.Worker }
