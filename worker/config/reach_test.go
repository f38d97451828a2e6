package config

import (
	"testing"
	"time"
)

// What a killed worker left is found under the same reach alone, and what says
// nothing about where that is does not part two workers.
func TestTheReachIsWhereOrphansAre(t *testing.T) {
	oci := "[worker.sandbox]\nruntime = \"oci\"\n"
	storage := oci + "bundle_backend = \"s3\"\n[worker.sandbox.oci]\ntransport = \"storage\"\n[storage]\n"
	crun := "[worker.sandbox]\nruntime = \"crun\"\n"
	seen := map[string]string{}
	for _, text := range append([]string{
		"", oci, oci + "run_dir = \"/srv\"\n", oci + "[worker.sandbox.oci]\nengine = \"docker\"\n",
		storage + s3Backend, storage + s3Backend + "region = \"x\"\n",
		crun, crun + "[worker.sandbox.crun]\nstate_dir = \"/srv\"\n",
	}, podReaches...) {
		reach := load(t, text).Reach()
		if other, is := seen[reach]; is {
			t.Errorf("%q and %q both reach %s", text, other, reach)
		}
		seen[reach] = text
	}
	same := load(t, oci+"memory_limit_mb = 1024\n[worker.sandbox.oci]\nengine = \"podman\"\norphan_after_secs = 60\n")
	if seen[same.Reach()] != oci || same.Worker.Sandbox.OrphanAfter() != time.Minute {
		t.Errorf("%s, orphans after %s", same.Reach(), same.Worker.Sandbox.OrphanAfter())
	}
	// These leave nothing.
	for _, name := range []string{"bwrap", "none"} {
		if after := load(t, "[worker.sandbox]\nruntime = \""+name+"\"\n").Worker.Sandbox.OrphanAfter(); after != 0 {
			t.Errorf("%s: orphans after %s", name, after)
		}
	}
}
