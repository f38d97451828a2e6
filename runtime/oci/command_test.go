package oci

import (
	"slices"
	"testing"
)

func TestWhereAnEngineKeepsItsContainersIsDecidedByItsVariables(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		root         bool
		want         []string
	}{
		{"podman", Podman, true, []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER"}},
		{"rootless podman", Podman, false, []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "HOME", "STORAGE_DRIVER", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}},
		{"docker", Docker, true, []string{"DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "HOME"}},
		{"docker of a group's member", Docker, false, []string{"DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "HOME"}},
	} {
		got := decisive(c.engine, c.root)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for _, name := range got {
			if !slices.Contains(PassedOn, name) {
				t.Errorf("%s: %s is not passed on", c.name, name)
			}
		}
	}
}

func TestAnEngineIsLocatedByWhatIsSetAndNotByTheAccountsOwnHome(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		env          map[string]string
		want         []string
	}{
		{"nothing", Docker, nil, nil},
		{"a host as it comes", Docker, map[string]string{"HOME": ownHome(), "PATH": "/usr/bin"}, nil},
		{"another home", Docker, map[string]string{"HOME": "/srv/other"}, []string{"HOME=/srv/other"}},
		{"a daemon", Docker, map[string]string{"DOCKER_HOST": "unix:///x", "STORAGE_DRIVER": "vfs"}, []string{"DOCKER_HOST=unix:///x"}},
		{"podman as it comes", Podman, map[string]string{"HOME": ownHome(), "XDG_RUNTIME_DIR": "/run/user/1"}, nil},
		{"podman's storage", Podman, map[string]string{"STORAGE_DRIVER": "vfs", "DOCKER_HOST": "unix:///x"}, []string{"STORAGE_DRIVER=vfs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range PassedOn {
				t.Setenv(name, c.env[name])
			}
			if got := Located(c.engine); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
