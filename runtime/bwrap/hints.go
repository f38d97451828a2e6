package bwrap

import "github.com/batleforc/batlehub-sandbox/wire"

// Hint is what to do about a failed assertion under this runtime. There is one
// for every assertion.
func Hint(id wire.AssertionID) string { return hints[id] }

var hints = map[wire.AssertionID]string{
	wire.AssertResult: "run sandboxctl doctor for what this host lacks; " + docs,
	wire.AssertWire:   "build the room again with the agent of this release: sandboxctl tree",
	wire.AssertNetwork: "bwrap shares the network only if its namespace could not be made or its options were changed: " +
		"look at the bwrap that runs (a wrapper?); " + docs,
	wire.AssertReadOnlyRoot: "the room is bound read-only and needs a /usr/bin: build it again with sandboxctl tree; " +
		"if it has one, look at the bwrap that runs (a wrapper?)",
	wire.AssertWorkDir: "bwrap binds the run directory nosuid and nodev: look at the bwrap that runs (a wrapper?), and at the run " +
		"directory's file system (read-only? full?)",
	wire.AssertEnvironment: "bwrap clears the environment: look at the bwrap that runs (a wrapper?)",
	wire.AssertUnprivileged: "bwrap runs as uid 65532 without capabilities: look at the bwrap that runs (a wrapper, " +
		"or set-uid root?)",
	wire.AssertCredentials:  "remove the token or credential from the room: sandboxctl tree builds one from a list of files",
	wire.AssertRoom:         "remove the shell or the worker's program from the room: sandboxctl tree builds one from a list of files",
	wire.AssertCommand:      "add the scanner's program to its room with sandboxctl tree, or correct [scanners.<name>] command",
	wire.AssertPIDNamespace: "bwrap makes a pid namespace in which the agent is pid 1: look at the bwrap that runs (a wrapper?)",
	wire.AssertSeccomp: "the agent's filter did not take hold: the kernel needs CONFIG_SECCOMP_FILTER, and the room the agent " +
		"for this machine's architecture",
	wire.AssertNoNewPrivs: "the kernel did not keep no_new_privs on the scanner: it needs Linux 3.5 or later; " + docs,
	wire.AssertMemory: "bwrap claims no memory wall, only RLIMIT_AS: a failure here is an agent of another release; build the room again " +
		"with sandboxctl tree",
}
