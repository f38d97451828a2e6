// Package reap ends and reaps what a scanner leaves behind.
//
// A scanner shares its uid with the agent, so whatever it started must be
// gone before the result is written. Two kinds of process may do that: pid 1
// of a pid namespace, for which everything else in it belongs to the run, and
// a keeper, a subreaper that has no child but the scanner, for which exactly
// its descendants do. Nothing here ever signals any other process.
package reap
