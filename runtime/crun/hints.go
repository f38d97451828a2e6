package crun

import "github.com/batleforc/batlehub-sandbox/wire"

// Hint is what to do about a failed assertion under this runtime. There is one
// for every assertion.
func Hint(id wire.AssertionID) string { return hints[id] }

var hints = map[wire.AssertionID]string{
	wire.AssertResult:       "run sandboxctl doctor for what this host lacks; " + docs,
	wire.AssertWire:         "build the room again with the agent of this release, and pin its digest again",
	wire.AssertNetwork:      "the sandbox has a network namespace of its own: look at the program that runs (a wrapper?); " + docs,
	wire.AssertReadOnlyRoot: "the room is mounted read-only and needs a /usr/bin: build it again with sandboxctl tree",
	wire.AssertWorkDir: "a sandbox can write /work and /out alone, both nosuid, nodev and noexec: look at the program that runs " +
		"(a wrapper? a release that drops mount flags?), and at the mode of the room's /work, which is to be 1777",
	wire.AssertEnvironment:  "config.json has HOME and PATH alone: look at the program that runs (a wrapper?)",
	wire.AssertUnprivileged: "config.json has a user of its own and no capability: look at the program that runs (a wrapper?)",
	wire.AssertCredentials:  "remove the token or credential from the room: sandboxctl tree builds one from a list of files",
	wire.AssertRoom:         "remove the shell or the worker's program from the room: sandboxctl tree builds one from a list of files",
	wire.AssertCommand:      "add the scanner's program to its room with sandboxctl tree, or correct [scanners.<name>] command",
	wire.AssertPIDNamespace: "the sandbox has a pid namespace in which the agent is pid 1: look at the program that runs (a wrapper?)",
	wire.AssertSeccomp: "the agent's filter did not take hold: the kernel needs CONFIG_SECCOMP_FILTER, and the room the agent " +
		"for this machine's architecture",
	wire.AssertNoNewPrivs: "the kernel did not keep no_new_privs on the scanner: it needs Linux 3.5 or later; " + docs,
	wire.AssertMemory: "the memory limit of the run's cgroup did not hold: look at memory.max (v1: memory.limit_in_bytes, and " +
		"memory.memsw.limit_in_bytes where there is swap) below the cgroup batlehub-sandbox",
}
