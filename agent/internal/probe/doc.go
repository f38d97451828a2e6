// Package probe asserts, from inside a sandbox, that its walls stand.
package probe
