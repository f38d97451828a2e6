// Package sandbox is the port: what a caller may ask of a sandbox runtime, and
// what it gets back. It holds data types, one interface and one error type; it
// does no I/O and names no runtime.
//
// A runtime is real when it passes the conformance suite, and not before.
package sandbox
