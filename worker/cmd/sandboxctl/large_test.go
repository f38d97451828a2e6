package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A sparse file costs whoever makes it nothing, and a copy of it costs all.
func TestAnArtifactFarBeyondAnyLimitIsNotCopied(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.tgz")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 100<<30); err != nil {
		t.Skip("not run: a sparse file of 100 GiB can't be made here: ", err)
	}
	rooms, dir := testRoom(t, "tool", built(t, "tool")), runDir(t)
	config := put(t, "c.toml", []byte("[scanners.tool]\ncommand = \"tool\"\nargs = [\"echo\"]\n"))
	small := put(t, "small.toml", []byte("[worker.sandbox]\nmax_artifact_mb = 1\n"))
	mib := put(t, "a.tgz", make([]byte, 1<<20+1))
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"scan --config " + config + " " + large, ExitFailed, "sandboxctl: could not scan: " + large + " has 100.0 GiB, more than [worker.sandbox] max_artifact_mb allows (2048 MiB)\n"},
		{"scan --config " + config + " --config " + small + " " + mib, ExitFailed, "sandboxctl: could not scan: " + mib + " has 1.0 MiB, more than [worker.sandbox] max_artifact_mb allows (1 MiB)\n"},
		{"run --room tool --archive a=" + large + " -- tool echo", ExitRunFailed, "sandboxctl: " + large + " has 100.0 GiB, more than"},
	} {
		r := sandboxctl(t, nil, append(strings.Fields(c.args)[:1], append([]string{"--rooms", rooms, "--run-dir", dir}, strings.Fields(c.args)[1:]...)...)...)
		if r.status != c.status || !strings.HasPrefix(r.stderr, c.want) || strings.Count(r.stderr, "\n") != 1 || r.took > 10*time.Second {
			t.Errorf("%s: status %d, want %d, after %s\ngot  %swant %s", c.args, r.status, c.status, r.took, r.stderr, c.want)
		}
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("run directories were made: %q", got)
	}
}
