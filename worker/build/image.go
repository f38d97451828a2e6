package build

import (
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// ImageVariable names the image that the worker was started from. The
// worker's images set it.
const ImageVariable = "BATLEHUB_IMAGE"

// imageNames are the names of images that a runtime takes: its own rule of them,
// and what it takes in words. The zero value is that of a runtime without images.
type imageNames struct {
	parse func(image string) (pinned bool, err error)
	forms string
}

func imageNamesOf(runtime string) imageNames {
	switch runtime {
	case oci.Name:
		return imageNames{oci.ParseImage, oci.ImageForms}
	case "kubernetes":
		return podImages
	}
	return imageNames{}
}

// fault says what is wrong with an image's name and what to write instead.
func (n imageNames) fault(image string) string {
	if n.parse == nil {
		return ""
	}
	if _, err := n.parse(image); err != nil {
		return fmt.Sprintf("%v; want %s", err, n.forms)
	}
	return ""
}

// CheckImages refuses an image that no run of the configured runtime can be
// opened from by its name: found at load, and not with the first run. Its error
// is a *config.Error.
func CheckImages(c *config.Config) error {
	names := imageNamesOf(c.Worker.Sandbox.Runtime)
	for _, image := range c.Images {
		fault := names.fault(image.Name)
		if fault == "" {
			continue
		}
		if image.Scanner != "" {
			fault = fmt.Sprintf("scanner '%s': %s", image.Scanner, fault)
		}
		return &config.Error{File: image.File, Line: image.Line, Message: fault}
	}
	return nil
}

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
	for _, image := range []string{own, i.Configured} {
		if image != "" {
			return image, nil
		}
	}
	if i.Worker != "" {
		if fault := imageNamesOf(i.Runtime).fault(i.Worker); fault != "" {
			return "", &config.Error{Message: ImageVariable + ": " + fault}
		}
		return i.Worker, nil
	}
	return "", &config.Error{Message: fmt.Sprintf(
		"there is no image to run scanner '%s' in; set [scanners.%s] image or [worker.sandbox.%s] image, or start the worker with %s", scanner, scanner, i.Runtime, ImageVariable)}
}

// IsWorkers says that an image is the worker's own, in which a shell and the
// worker's program are to be expected.
func (i Images) IsWorkers(image string) bool { return image != "" && image == i.Worker }
