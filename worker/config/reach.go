package config

import (
	"fmt"
	"path/filepath"
)

// Reach names what a sweep under this configuration goes over, as far as that is
// in the configuration: two workers in one environment with the same reach find
// the same orphans.
func (c *Config) Reach() string {
	s := c.Worker.Sandbox
	words := []string{s.Runtime}
	switch s.Runtime {
	case "oci":
		words = append(words, s.OCI.Engine, absolute(s.RunDir))
	case "kubernetes":
		words = append(words, absolute(s.Kubernetes.Kubeconfig), s.Kubernetes.Namespace)
	case "crun":
		words = append(words, absolute(s.Crun.StateDir))
	}
	if b, ok := c.BundleBackend(); ok && s.StorageHop() {
		words = append(words, b.Endpoint, b.Region, b.Bucket, s.BundlePrefix)
	}
	return fmt.Sprintf("%q", words)
}

// absolute is a path from wherever the worker starts; an empty one stays so.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}
