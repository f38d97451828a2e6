// Package stage is what the agent's executable does instead of its usual
// work when argv[0] says so: it becomes a scanner behind limits and a filter,
// keeps a scanner for a program that is not pid 1, or bears witness of what a
// scanner would be under.
//
// It imports little, because it runs in an init function, before everything
// that takes time to set up, and once for each scanner.
package stage
