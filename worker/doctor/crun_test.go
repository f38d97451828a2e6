package doctor

import (
	"context"
	"strings"
	"testing"
)

// direct is what a host with everything says of runtime crun, but for the given
// checks.
func direct(other map[string]Check) Direct {
	return Direct{
		Examine: func(context.Context) []Check {
			var checks []Check
			for _, name := range []string{"program", "namespaces", "user ids", "cgroups", "state directory"} {
				c := Check{Name: name, Outcome: Pass}
				if o, broken := other[name]; broken {
					c = o
					c.Name = name
				}
				checks = append(checks, c)
			}
			return checks
		},
		CheckRoom: func(_ context.Context, r Room) Check {
			c := Check{Name: "room " + r.Scanner, Outcome: Pass}
			if o, broken := other["room"]; broken {
				c.Outcome, c.Detail, c.Fixes = o.Outcome, o.Detail, o.Fixes
			}
			return c
		},
	}
}

func TestEachThingThatRuntimeCrunLacksIsNamedWithItsFix(t *testing.T) {
	chosen := func(h *Host) { h.Sandbox.Runtime = "crun" }
	for _, c := range []struct {
		name, check string
		breakIt     func(*testing.T, *Host)
		outcome     Outcome
		detail, fix string
	}{
		{"a controller that is missing", "cgroups", func(_ *testing.T, h *Host) {
			h.Direct = direct(map[string]Check{"cgroups": {Outcome: Fail, Detail: "lacks the controllers: memory", Fixes: []string{"delegate them"}}})
		}, Fail, "lacks the controllers: memory", "delegate them"},
		{"a configuration that no runtime takes", "configuration", func(_ *testing.T, h *Host) { h.Direct = Direct{Problem: "user 0:0"} }, Fail, "user 0:0", "[worker.sandbox.crun]"},
		{"few open files", "open files", func(_ *testing.T, h *Host) { h.OpenFiles = 4095 }, Caution, "the hard limit is 4095 and a sandbox has 4096", "LimitNOFILE="},
		{"a kernel without filters", "seccomp", func(_ *testing.T, h *Host) { h.Proc = "/nonexistent" }, Fail, "no seccomp filters", "CONFIG_SECCOMP_FILTER"},
		{"another runtime's rooms", "rooms", func(*testing.T, *Host) {}, Skipped, "not the configured one", ""},
		{"no scanner", "rooms", func(_ *testing.T, h *Host) { chosen(h); h.Rooms = nil }, Skipped, "no scanner is configured", "[scanners.<name>]"},
		{"a room that has changed", "room gitleaks", func(_ *testing.T, h *Host) {
			chosen(h)
			h.Direct = direct(map[string]Check{"room": {Outcome: Fail, Detail: "its digest is another", Fixes: []string{"build it again"}}})
		}, Fail, "its digest is another", "build it again"},
		{"a room as it was", "room gitleaks", func(_ *testing.T, h *Host) { chosen(h) }, Pass, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t)
			c.breakIt(t, &h)
			got := find(t, Examine(t.Context(), h), "crun", c.check)
			if got.Outcome != c.outcome || !strings.Contains(got.Detail, c.detail) || c.fix != "" && !strings.Contains(strings.Join(got.Fixes, " "), c.fix) {
				t.Errorf("got %+v, want %s %q %q", got, c.outcome, c.detail, c.fix)
			}
		})
	}
}
