// Package scanner turns a scanner's definition and an artifact into the runs
// that a runtime is asked for, and says how each run's output is read.
//
// It imports the port and no runtime, starts no process, and touches no file:
// what a scanner is given is a bundle of data. Four scanners are predefined;
// any other program is configuration.
package scanner
