package doctor

import (
	"context"
	"fmt"
)

// Cluster is what the kubernetes runtime tells a doctor. Its zero value is that
// of a build without it.
type Cluster struct {
	// Examine asks the cluster for what every run needs of it.
	Examine func(context.Context) []Check
	// Pinned says whether an image's name names its content.
	Pinned func(image string) (bool, error)
}

// kubernetes looks at the cluster and the images, where this is the configured
// runtime: nothing of the host matters to it, and another runtime's worker is
// not to knock at an API server.
func (h Host) kubernetes(ctx context.Context) []Check {
	checks := []Check{{Name: "cluster", Outcome: Skipped, Detail: "runtime kubernetes is not the configured one"}}
	switch {
	case h.Cluster.Examine == nil:
		checks[0].Detail = "not in this build (tag nokubernetes)"
	case h.Sandbox.Runtime == "kubernetes":
		checks = append(h.Cluster.Examine(ctx), h.clusterImages()...)
	}
	for i := range checks {
		checks[i].Runtime = "kubernetes"
	}
	return checks
}

// clusterImages looks at the names of the images. Whether a node can have them
// only a pod shows.
func (h Host) clusterImages() []Check {
	if len(h.Images) == 0 {
		return []Check{{Name: "images", Outcome: Skipped, Detail: "no scanner is configured", Fixes: []string{"add a [scanners.<name>] table, or see sandboxctl scan --scanner"}}}
	}
	var checks []Check
	for _, image := range h.Images {
		checks = append(checks, h.clusterImage(image))
	}
	return checks
}

func (h Host) clusterImage(image Image) Check {
	c := Check{Name: "image " + image.Scanner, Outcome: Fail, Detail: image.Problem, Fixes: []string{fmt.Sprintf("set [scanners.%s] image", image.Scanner)}}
	if image.Name == "" {
		return c
	}
	pinned, err := h.Cluster.Pinned(image.Name)
	c.Fixes = []string{"name it by its digest, as registry/name@sha256:…"}
	switch {
	case err != nil:
		c.Detail = err.Error()
	case !pinned:
		c.Outcome, c.Detail = Caution, image.Name+" is named by a tag, which can come to mean another image, and each node may have another one"
	default:
		c.Outcome, c.Detail, c.Fixes = Pass, image.Name, nil
	}
	return c
}
