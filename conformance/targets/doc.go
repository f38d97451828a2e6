// Package targets hands the project's own runtimes to the suite: how each is
// made, how its rooms and its walls are broken, and its mutants. The suite's
// library knows none of it.
package targets
