// Package seccomp is the system call filter that every scanner runs under.
//
// One table (table.go) says which calls are refused, with which errno and
// why. tools/seccompgen compiles it with libseccomp to one BPF program per
// architecture; the programs are committed, embedded here and loaded with a
// plain seccomp(2), so that nothing that ships needs libseccomp or cgo.
//
// It is a deny list and answers with an errno, never with a kill: a scanner
// that trips over it fails with an error somebody can read (RFC 0022 §7).
package seccomp
