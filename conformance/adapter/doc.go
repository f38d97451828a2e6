// Package adapter makes a target of any executable: a runtime in another
// language is checked by the same suite as ours.
//
// The executable is started once for each verb, as
//
//	adapter capabilities | run | probe | sweep
//
// reads one JSON document on stdin and writes one on stdout. Its exit status
// is 0 for an answer, 2 for a deliberate refusal of what was asked, and
// anything else for a failure; for both of the latter it may print an Error
// document, and whatever is on stderr is evidence. When the suite no longer
// wants a run it sends SIGTERM and, after a bound, SIGKILL: either way nothing
// may be left behind.
//
// Two variables are in its environment: SANDBOX_CONFORMANCE_PROGRAMS is a JSON
// object of the programs that must be in the room, by name, as paths on this
// host; SANDBOX_CONFORMANCE_DIR is a directory for whatever the adapter needs,
// the same for all verbs of one run of the suite, removed by the suite.
//
// docs/conformance.md describes the documents.
package adapter
