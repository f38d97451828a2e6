// Package conformance is the suite that decides whether a sandbox runtime is
// real. A runtime is handed to it as a Target; the suite knows the port and
// the bundle and nothing else about it.
package conformance
