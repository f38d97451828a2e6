package build

import (
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// Reach names what a sweep of this process goes over: two workers on one host with
// the same reach find the same orphans. An engine is reached by its environment
// as well, and another daemon has none of the first one's containers.
func Reach(c *config.Config) string {
	s := c.Worker.Sandbox
	if s.Runtime != oci.Name {
		return c.Reach()
	}
	located := oci.Located(s.OCI.Engine)
	if len(located) == 0 {
		// The ids that a host has held stay its own.
		return c.Reach()
	}
	return fmt.Sprintf("%s %q", c.Reach(), located)
}
