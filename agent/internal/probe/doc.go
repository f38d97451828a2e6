// Package probe asserts, from inside a sandbox, that its walls stand
// (RFC 0022 §4.3).
//
// Each assertion is one small function over a Room, which holds every path,
// list and system call that the assertion rests on. A wall that can't be seen
// to stand is a failure: an assertion never passes because it could not look.
// A detail says what was seen, in one line, and never repeats a value of the
// environment.
package probe
