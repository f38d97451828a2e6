//go:build nokubernetes

package build

import (
	"github.com/batleforc/batlehub-sandbox/worker/config"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
)

// kubernetes is not in a build with this tag, which links no client library.
func (o Options) kubernetes() (Built, error) {
	return Built{}, &config.Error{Message: config.CheckRuntime("kubernetes").Error()}
}

// podImages are not known here.
var podImages imageNames

func clusterHost(Options) doctor.Cluster { return doctor.Cluster{} }
