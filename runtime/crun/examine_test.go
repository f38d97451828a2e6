package crun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// examined is what is seen of a host by a runtime over a program that calls
// itself so.
func examined(t *testing.T, files map[string]string, version string, change func(*Config)) map[string]Aspect {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		chmod(t, d, 0o755)
	}
	c := Config{Program: filepath.Join(dir, "runc"), Rooms: dir, StateDir: filepath.Join(dir, "state")}
	put(t, c.Program, "#!/bin/sh\necho "+version+"\n")
	chmod(t, c.Program, 0o755)
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.host = laid(t, files)
	seen := map[string]Aspect{}
	for _, a := range r.Examine(t.Context()) {
		seen[a.Name] = a
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("looking made the state directory")
	}
	return seen
}

func TestAHostIsExaminedWhateverIsMissingFirst(t *testing.T) {
	for name, a := range examined(t, ordinaryHost(), "runc version 1.1.5", nil) {
		if a.Fault != nil || a.Detail == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	cgroups := "/sys/fs/cgroup/cgroup.controllers"
	for what, c := range map[string]struct {
		files   map[string]string
		version string
		change  func(*Config)
		aspect  string
		code    sandbox.Code
		says    string
	}{
		"no program":            {ordinaryHost(), "", func(c *Config) { c.Program = "/nonexistent/runc" }, "program", sandbox.CodeNoEngine, "/nonexistent/runc"},
		"another program":       {ordinaryHost(), "youki version 1", nil, "program", sandbox.CodeConfig, "youki"},
		"no user namespace":     {without("/proc/self/ns/user"), "runc version 1", nil, "namespaces", sandbox.CodeNotRootless, "CONFIG_USER_NS"},
		"an id of the host's":   {ordinaryHost(), "runc version 1", func(c *Config) { c.UsernsBase = 1 }, "user ids", sandbox.CodeNotRootless, "65536"},
		"no memory controller":  {with(cgroups, "cpu pids"), "runc version 1", nil, "cgroups", sandbox.CodeNoEngine, "lacks the controllers: memory"},
		"hybrid cgroups":        {hybridHost(), "crun version 1", nil, "cgroups", sandbox.CodeNoEngine, "hybrid"},
		"hybrid, by name alone": {hybridHost(), "", func(c *Config) { c.Program = "/nonexistent/crun" }, "cgroups", sandbox.CodeNoEngine, "hybrid"},
		"no place for state":    {ordinaryHost(), "runc version 1", func(c *Config) { c.StateDir = "/nonexistent/a/b" }, "state directory", sandbox.CodeConfig, "/nonexistent/a"},
	} {
		a := examined(t, c.files, c.version, c.change)[c.aspect]
		if a.Fault == nil || a.Fault.Code != c.code || !strings.Contains(a.Fault.Error(), c.says) || a.Fault.Hint == "" {
			t.Errorf("%s: %+v, want %s about %q", what, a, c.code, c.says)
		}
	}
}
