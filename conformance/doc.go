// Package conformance is the suite that decides whether a sandbox runtime is
// real.
//
// A runtime is handed to it as a Target: how to make one, what it claims, and
// where the programs of its rooms are. The suite knows the port and the wire
// formats and nothing else; it imports no runtime. Each Spec has a stable id,
// says in one sentence what must hold and why, and is mapped from a MUST of
// docs/conformance.md.
//
// There are three ways in: Describe inside one's own Ginkgo suite, Run in a
// plain Go test, and the command sandbox-conformance, which also drives any
// executable that speaks the port's verbs over JSON (package adapter).
package conformance
