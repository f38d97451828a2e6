package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

func (o Options) oci(runDir string) (Built, error) {
	c := o.Sandbox.OCI
	made := oci.Config{
		Engine: c.Engine, Binary: c.Binary, Image: c.Image, Transport: c.Transport, ExtraArgs: c.ExtraArgs, Pull: c.Pull,
		Network: c.Network, StoragePool: c.StoragePool, EgressPool: c.EgressPool, RunDir: runDir, Canaries: o.Canaries, Worker: o.Worker,
	}
	for _, text := range c.EgressAllow {
		d, err := firewall.ParseDestination(text)
		if err != nil {
			return Built{}, &config.Error{Message: "egress_allow " + err.Error()}
		}
		made.EgressAllow = append(made.EgressAllow, d)
	}
	bundles := "transport mount"
	if o.Sandbox.StorageHop() {
		hop, err := o.hop(oci.Name)
		if err != nil {
			return Built{}, err
		}
		// Nothing is cached for this worker, and so all that a sandbox fetches
		// is on the bundles' backend.
		made.Hop, made.StorageEndpoints = hop, []string{StorageURL(o.Bundles)}
		bundles = fmt.Sprintf("bundles on s3://%s/%s", o.Bundles.Bucket, o.Sandbox.BundlePrefix)
	}
	r, err := oci.New(made)
	if err != nil {
		if made.Hop != nil {
			err = errors.Join(err, made.Hop.Close())
		}
		return Built{}, err
	}
	built := Built{
		Runtime: r, Work: "/work",
		Images:    &Images{Configured: c.Image, Worker: o.WorkerImage, Runtime: oci.Name},
		placement: func(images []string) string { return strings.Join(placed(c, images, bundles), ", ") },
	}
	if made.Hop != nil {
		built.Runtime = withHop{r, made.Hop}
	}
	return built, nil
}

// placed says where an oci run takes place.
func placed(c config.OCI, images []string, bundles string) []string {
	words := []string{"engine " + c.Engine}
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	switch len(images) {
	case 0:
	case 1:
		words = append(words, "image "+images[0])
	default:
		words = append(words, "images "+strings.Join(images, " "))
	}
	return append(words, bundles)
}

// withHop is a runtime that owns its hop.
type withHop struct {
	hopRuntime
	hop *bundle.Hop
}

type hopRuntime interface {
	sandbox.Runtime
	sandbox.JobCloser
}

// Close implements sandbox.Runtime.
func (w withHop) Close() error { return errors.Join(w.hopRuntime.Close(), w.hop.Close()) }
