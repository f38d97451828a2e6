package kubernetes

import "github.com/batleforc/batlehub-sandbox/wire"

// Hint is what to do about a failed assertion under this runtime. There is one
// for every assertion.
func Hint(id wire.AssertionID) string { return hints[id] }

// admission is what can change a pod between this worker and its node.
const admission = "look at what changes pods of this namespace on their way (a mutating webhook or policy, a service mesh's injection)"

var hints = map[wire.AssertionID]string{
	wire.AssertResult: "run sandboxctl doctor for what this cluster lacks; " + docs,
	wire.AssertWire:   "use the images of this release, by digest; " + docs,
	wire.AssertNetwork: "the cluster's network plugin has to enforce the NetworkPolicies that select io.batlehub/network=storage: install them " +
		"(the chart does), and a plugin that enforces them; " + docs,
	wire.AssertReadOnlyRoot: "the pod's root is read-only, and the image needs a /usr/bin: " + admission + "; " + docs,
	wire.AssertWorkDir: "/work is a memory emptyDir and nothing else can be written: " + admission + ", remove VOLUME from the image, and for a " +
		"runtime_class of gVisor's set own_kernel = true; " + docs,
	wire.AssertEnvironment:  "the pod has HOME and PATH alone: remove ENV from the image, and " + admission + "; " + docs,
	wire.AssertUnprivileged: "the pod runs as uid 65532 without capabilities: " + admission + "; " + docs,
	wire.AssertCredentials:  "the pod has no token: remove the credential from the image, and " + admission + "; " + docs,
	wire.AssertRoom:         "use an image that holds the scanner and the agent alone, as those of this release; " + docs,
	wire.AssertCommand:      "set [scanners.<name>] image to the image of this scanner, or correct its command; " + docs,
	wire.AssertPIDNamespace: "the pod's container has a pid namespace in which the agent is pid 1: " + admission + " (shareProcessNamespace? hostPID?); " + docs,
	wire.AssertSeccomp:      "the agent's filter did not take hold: the node's kernel needs CONFIG_SECCOMP_FILTER, and the image the agent for its architecture; " + docs,
	wire.AssertNoNewPrivs:   "the kernel did not keep no_new_privs on the scanner: " + admission + "; " + docs,
	wire.AssertMemory:       "the pod's memory limit has to hold: look at the cgroups of the nodes and their container runtime; " + docs,
}
