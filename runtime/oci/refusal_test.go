package oci

import (
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What podman and docker said when parts of them were killed. None of it is a
// room without an agent, whatever the status says.
func TestAnEngineWhoseHelpersAreKilledIsACrashThatCanBeRepeated(t *testing.T) {
	for _, c := range []struct {
		engine string
		status int
		says   string
		names  string
	}{
		{Podman, 126, `Error: container create failed (no logs from conmon): conmon bytes "": readObjectStart: expect { or n, but found ` + "\x00", "conmon"},
		{Podman, 126, "Error: write child: broken pipe", "conmon"},
		{Docker, 125, "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc did not terminate successfully: exit status 137: unknown", "OCI runtime"},
		{Docker, 125, "docker: Error response from daemon: failed to start shim: start failed: dial unix /run/containerd/s/f7: connect: connection refused: unknown", "shim"},
		{Podman, 126, "Error: something that nobody has seen", ""},
		{Podman, 127, "", ""},
	} {
		r := &Runtime{config: Config{Engine: c.engine}.withDefaults()}
		e := &sandbox.Error{Kind: sandbox.Crashed, Stderr: c.says}
		r.recognise(e, c.status)
		if e.Kind != sandbox.Crashed || e.Code != sandbox.CodeInternal || !strings.Contains(e.Hint, c.names) {
			t.Errorf("%s %d, %q: got %v", c.engine, c.status, c.says, e)
		}
	}
}
