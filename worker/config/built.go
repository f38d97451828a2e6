//go:build !nokubernetes

package config

// absent are the runtimes that were left out of this build.
var absent []string
