// Package scanner turns a scanner's definition and an artifact into the runs that the
// port is asked for. It imports the port only, and starts no process.
package scanner
