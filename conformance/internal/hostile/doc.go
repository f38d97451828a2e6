// Command hostile is what the suite puts in the scanner's place: one static
// program with one verb per attempt to reach, see, change, escape, exhaust or
// forge something. Each verb prints one JSON line (attempt.Report) saying what
// it got; the suite judges it.
//
// It also runs under the runtime without walls, on a machine that other people
// use, perhaps as root. So every attempt is harmless where it succeeds: files
// are opened for writing and closed again, system calls that would change the
// host get arguments that can't be followed, floods have a bound of their own,
// and real signals go to a parent only when that is pid 1 of a namespace and
// the suite asked for it.
package main
