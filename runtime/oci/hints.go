package oci

import "github.com/batleforc/batlehub-sandbox/wire"

// Hint is what to do about a failed assertion under this runtime. There is one
// for every assertion.
func Hint(id wire.AssertionID) string { return hints[id] }

// extra is what takes most walls down.
const extra = "look at [worker.sandbox.oci] extra_args and at the engine's own configuration"

var hints = map[wire.AssertionID]string{
	wire.AssertResult: "run sandboxctl doctor for what this host lacks; " + docs,
	wire.AssertWire:   "use the images of this release, by digest; " + docs,
	wire.AssertNetwork: "with transport = \"storage\" the host's firewall keeps a sandbox from all but the storage: run sandboxctl network " +
		"as root; otherwise " + extra + " (--network?); " + docs,
	wire.AssertReadOnlyRoot: "the engine runs the image read-only, and it needs a /usr/bin: " + extra + " (--read-only=false? --privileged?); " + docs,
	wire.AssertWorkDir:      "the engine makes /work a tmpfs with nosuid and nodev, and nothing else is writable: " + extra + " (-v? --tmpfs?), and remove VOLUME from the image; " + docs,
	wire.AssertEnvironment:  "the engine adds nothing to HOME and PATH: remove ENV from the image, and " + extra + " (-e? --env-host? proxies of docker's config.json?); " + docs,
	wire.AssertUnprivileged: "the engine runs the image as uid 65532 without capabilities: " + extra + " (--user? --privileged? --cap-add?); " + docs,
	wire.AssertCredentials:  "remove the token or credential from the image, and " + extra + " (-e? -v?); " + docs,
	wire.AssertRoom:         "use an image that holds the scanner and the agent alone, as those of this release; " + docs,
	wire.AssertCommand:      "set [scanners.<name>] image to the image of this scanner, or correct its command; " + docs,
	wire.AssertPIDNamespace: "the engine makes a pid namespace in which the agent is pid 1: " + extra + " (--pid? --init?); " + docs,
	wire.AssertSeccomp:      "the agent's filter did not take hold: the kernel needs CONFIG_SECCOMP_FILTER, and the image the agent for this machine's architecture; " + docs,
	wire.AssertNoNewPrivs:   "the kernel did not keep no_new_privs on the scanner: " + extra + "; " + docs,
	wire.AssertMemory:       "the engine limits the container's memory: " + extra + " (--memory?), and that the host's cgroups have a memory controller that the engine may use; " + docs,
}
