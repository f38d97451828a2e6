// Package oci is the runtime over a container engine's command line: each run
// is one `podman run` or `docker run` of the scanner's image, of which nothing
// is left when it is over (RFC 0022 §5.3).
//
// The bundle reaches the container in one of two ways. Under "mount" the run
// directory is bound at /bundle; under "storage" the agent is given two
// presigned URLs, and shares nothing with this host.
package oci
