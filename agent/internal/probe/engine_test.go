package probe_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// engines are the mounts of a container as podman 4.3.1 and Docker 20.10 made
// it with the flags of RFC 0022 §5.3, recorded inside, and what uid 65532 could
// write at in it.
var engines = map[string][]string{
	"podman": {
		"/work", "/bundle", "/dev/mqueue", "/proc/keys", "/proc/timer_list",
		"/dev/null", "/dev/random", "/dev/full", "/dev/tty", "/dev/zero", "/dev/urandom",
	},
	"docker": {"/work", "/bundle", "/dev/mqueue"},
}

// container is a room with an engine's mounts, some of them changed, and with
// more that can be written.
func container(t *testing.T, engine string, change func(string) string, more ...string) (wire.Outcome, string) {
	t.Helper()
	recorded, err := os.ReadFile(filepath.Join("testdata", engine+".mounts"))
	if err != nil {
		t.Fatal(err)
	}
	f := good(t)
	f.proc(t, "mounts", change(string(recorded)))
	f.writable = append(slices.Clone(engines[engine]), more...)
	for _, path := range f.writable {
		if strings.HasPrefix(path, "/dev/") && path != "/dev/mqueue" {
			f.link(t, path, path)
		} else if strings.HasPrefix(path, "/proc/") {
			f.link(t, path, "/dev/null") // what hides it
		}
	}
	for _, v := range probe.Run(t.Context(), f.manifest, f.Room).Verdicts {
		if v.ID == wire.AssertWorkDir {
			return v.Outcome, v.Detail
		}
	}
	t.Fatal("the assertion was not made")
	return "", ""
}

func as(s string) string { return s }

func with(line string) func(string) string {
	return func(s string) string { return s + line + "\n" }
}

func TestAContainerHasOneWritableDirectory(t *testing.T) {
	for engine := range engines {
		if outcome, detail := container(t, engine, as); outcome != wire.Pass || !strings.Contains(detail, "/bundle, through which") {
			t.Errorf("%s: %s: %s", engine, outcome, detail)
		}
	}
}

func TestAContainerWithOneFlagWrongHasNot(t *testing.T) {
	for engine := range engines {
		for name, c := range map[string]struct {
			change func(string) string
			more   []string
			detail string
		}{
			"a second tmpfs":                {with("tmpfs /extra tmpfs rw,nosuid,nodev 0 0"), []string{"/extra"}, "/extra (tmpfs)"},
			"a volume":                      {with("/dev/vda /vol ext4 rw,relatime 0 0"), []string{"/vol"}, "/vol (ext4)"},
			"no --ipc none":                 {with("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0"), []string{"/dev/shm"}, "/dev/shm (tmpfs)"},
			"podman's own read-only tmpfs":  {with("tmpfs /tmp tmpfs rw,nosuid,nodev,relatime 0 0"), []string{"/tmp"}, "/tmp (tmpfs)"},
			"a work directory that is bind": {with("/dev/vda /work ext4 rw,relatime 0 0"), nil, "without nosuid"},
			"no work directory": {func(s string) string {
				return strings.Replace(s, "tmpfs /work ", "tmpfs /elsewhere ", 1)
			}, nil, "not a mount of its own"},
			"a cgroup that can be written": {func(s string) string {
				return strings.Replace(s, "cgroup /sys/fs/cgroup/memory cgroup ro", "cgroup /sys/fs/cgroup/memory cgroup rw", 1)
			}, []string{"/sys/fs/cgroup/memory"}, "/sys/fs/cgroup/memory (cgroup)"},
			"a root that is not read-only": {func(s string) string {
				return strings.Replace(s, "overlay / overlay ro", "overlay / overlay rw", 1)
			}, []string{"/"}, "/ (overlay)"},
		} {
			outcome, detail := container(t, engine, c.change, c.more...)
			if outcome != wire.Fail || !strings.Contains(detail, c.detail) {
				t.Errorf("%s with %s: %s: %s", engine, name, outcome, detail)
			}
		}
	}
}
