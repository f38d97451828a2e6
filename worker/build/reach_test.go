package build

import (
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/oci"
)

// reachOf is the reach of a configuration in an environment of these variables.
func reachOf(t *testing.T, text string, env map[string]string) string {
	t.Helper()
	for _, name := range append([]string{"CONTAINER_HOST"}, oci.PassedOn...) {
		t.Setenv(name, env[name])
	}
	c, _ := read(t, text)
	return Reach(c)
}

// A killed worker's containers are in the engine that it reached, and in no other
// of the same name.
func TestAnEngineThatIsReachedElsewhereIsAnotherReach(t *testing.T) {
	docker := someOCI + "[worker.sandbox.oci]\nengine = \"docker\"\n"
	const socket = "unix:///run/other.sock"
	type env = map[string]string
	for _, c := range []struct {
		name, text string
		env        env
		parts      bool
	}{
		{"docker's daemon", docker, env{"DOCKER_HOST": socket}, true},
		{"docker's context", docker, env{"DOCKER_CONTEXT": "other"}, true},
		{"docker's configuration", docker, env{"DOCKER_CONFIG": "/srv/docker"}, true},
		{"what podman reads", someOCI, env{"CONTAINERS_CONF": "/srv/containers.conf"}, true},
		{"podman's storage", someOCI, env{"CONTAINERS_STORAGE_CONF": "/srv/storage.conf"}, true},
		{"docker's home", docker, env{"HOME": "/srv/home"}, true},
		{"podman's driver", someOCI, env{"STORAGE_DRIVER": "vfs"}, true},
		{"what a rootless podman reads", someOCI, env{"XDG_CONFIG_HOME": "/srv/config"}, os.Geteuid() != 0},
		{"a rootless podman's home", someOCI, env{"HOME": "/srv/home"}, os.Geteuid() != 0},
		{"a rootless podman's storage", someOCI, env{"XDG_DATA_HOME": "/srv/data"}, os.Geteuid() != 0},
		{"docker's daemon under podman", someOCI, env{"DOCKER_HOST": socket}, false},
		{"podman's configuration under docker", docker, env{"CONTAINERS_CONF": "/srv/containers.conf"}, false},
		{"what podman does not get", someOCI, env{"CONTAINER_HOST": socket}, false},
		{"where programs are", docker, env{"PATH": "/opt/bin"}, false},
		{"docker's daemon under another runtime", "[worker.sandbox]\nruntime = \"crun\"\n", env{"DOCKER_HOST": socket}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare, reach := reachOf(t, c.text, nil), reachOf(t, c.text, c.env)
			if (bare != reach) != c.parts {
				t.Errorf("%s and %s: parted %t, want %t", bare, reach, bare != reach, c.parts)
			}
		})
	}
}

// The tag of an id is made of the reach: another one would leave to age what the
// last release was killed with.
func TestTheReachOfAPlainHostStaysTheConfigurations(t *testing.T) {
	account, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		t.Skipf("not run: this account has no home: %v", err)
	}
	plain := map[string]string{"HOME": account.HomeDir, "PATH": "/usr/bin:/bin"}
	for text, want := range map[string]string{
		someOCI: `["oci" "podman" ""]`,
		someOCI + "[worker.sandbox.oci]\nengine = \"docker\"\n": `["oci" "docker" ""]`,
		"[worker.sandbox]\nruntime = \"crun\"\n":                `["crun" "/var/lib/batlehub-sandbox/crun"]`,
	} {
		if got := reachOf(t, text, plain); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got, want := reachOf(t, someOCI, map[string]string{"STORAGE_DRIVER": "vfs"}), `["oci" "podman" ""] ["STORAGE_DRIVER=vfs"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
