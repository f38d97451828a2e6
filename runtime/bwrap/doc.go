// Package bwrap is the runtime over bubblewrap: each run is one bwrap process
// tree in namespaces of its own, over the scanner's own tree as a read-only
// root.
package bwrap
