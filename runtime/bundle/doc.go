// Package bundle moves a run's inputs to an agent and its result back.
//
// The transport here is a run directory: the artifact and the manifest are
// files in it, and so is the result. What a bundle says and what a result
// means is kept apart from how they travel (see Manifest and Output), so that
// another transport only adds a way to carry them.
package bundle
