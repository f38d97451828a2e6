// Package collect takes what a scanner prints, and writes the result where
// the scanner could write too.
package collect
