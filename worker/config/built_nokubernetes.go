//go:build nokubernetes

package config

// absent are the runtimes that were left out of this build: with the tag
// nokubernetes, the one that links the cluster's client library.
var absent = []string{"kubernetes"}
