// Package kubernetes is the runtime over a cluster: each run is one pod of the
// scanner's image, of which nothing is left when it is over (RFC 0022 §5.3).
//
// A pod shares nothing with this host. Its agent is given two presigned URLs of
// a storage backend, and the pod is watched and never talked to: there is no
// attach, no exec, no log and no stdin, and of the API server only the verbs
// create, get, list, watch and delete of pods are used, in one namespace.
package kubernetes
