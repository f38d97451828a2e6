// Package image reads what "podman save" and "docker save" write, and checks
// an image's content against a list of what may be in it.
//
// It is written without runtime/room, which makes trees from the same
// archives, so that a comparison of the two says something.
package image
