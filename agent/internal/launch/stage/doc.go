// Package stage makes a process that becomes a scanner behind limits and a
// filter; and is what this program's executable does instead of its usual work
// when argv[0] says so: it keeps a scanner for a program that is not pid 1, or
// bears witness of what a scanner stands behind.
//
// It imports little, because the latter runs in an init function, before
// everything that takes time to set up, and once for each scanner.
package stage
