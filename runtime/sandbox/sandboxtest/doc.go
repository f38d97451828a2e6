// Package sandboxtest has a sandbox.Runtime for the tests of its callers. It
// starts no process and touches no disk.
package sandboxtest
