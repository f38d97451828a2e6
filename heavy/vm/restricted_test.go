package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// restricted is one kind of host, and what is said on it to an ordinary user.
type restricted struct {
	state string
	// all and user are what bwrap says with --unshare-all and --unshare-user.
	all, user string
	// cause is the reason that doctor and runtime give, and fix the first thing
	// that the doctor says to do.
	cause, fix string
}

const (
	apparmor = "kernel.apparmor_restrict_unprivileged_userns=1 on this host"
	// profile lets bwrap alone make user namespaces.
	profile = "let bwrap alone make user namespaces, with an AppArmor profile in /etc/apparmor.d/bwrap"
	likely  = "No permissions to create a new namespace, likely because"
	enospc  = "Creating new namespace failed: nesting depth or "
)

var restrictions = []restricted{
	{state: "unrestricted"},
	{"ubuntu", "loopback: Failed RTM_NEWADDR: Operation not permitted", "setting up uid map: Permission denied", apparmor, profile},
	{"no-profile", "Creating new namespace failed: Permission denied", "Creating new namespace failed: Permission denied", apparmor, profile},
	// With the profile that the doctor has given for the one before.
	{state: "bwrap-profile"},
	{"capabilities-denied", likely, likely, "this host denies unprivileged user namespaces by a seccomp or AppArmor profile", "run the worker where unshare is allowed"},
	{"clone-off", likely, likely, "kernel.unprivileged_userns_clone=0 on this host", "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"none-left", enospc, enospc, "user.max_user_namespaces=0 on this host", "sysctl -w user.max_user_namespaces=16384"},
}

func TestTheDoctorKnowsEveryHostThatRestrictsUserNamespaces(t *testing.T) {
	long(t)
	out := t.TempDir()
	boot(t, slices.Concat(share("/in/bin", bin(t)), share("/in/test", filepath.Join(root(t), "heavy/vm/testdata")), []string{"--out", out}),
		"sh", "/in/test/restricted.sh", "/in/bin")
	for _, want := range restrictions {
		t.Run(want.state, func(t *testing.T) {
			said := func(name string) string { return read(t, filepath.Join(out, want.state, name)) }
			for name, words := range map[string]string{"all": want.all, "user": want.user} {
				if got := said(name + ".stderr"); !strings.Contains(got, words) || (words == "") != (said(name+".status") == "0\n") {
					t.Errorf("bwrap (%s) exits %q and says %q, want %q", name, said(name+".status"), got, words)
				}
			}
			want.checkDoctor(t, said("doctor.stdout"), said("doctor.status"))
			want.checkProbe(t, said("probe.stderr"), said("probe.status"))
		})
	}
}

// checkDoctor looks at what the doctor says of user namespaces.
func (r restricted) checkDoctor(t *testing.T, stdout, status string) {
	t.Helper()
	var report struct {
		Checks []struct {
			Runtime, Name, Outcome, Detail string
			Fixes                          []string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("the doctor exits %q: %v\n%s", status, err, stdout)
	}
	for _, c := range report.Checks {
		if c.Runtime != "bwrap" || c.Name != "user namespaces" {
			continue
		}
		switch {
		case r.cause == "" && (c.Outcome != "PASS" || len(c.Fixes) > 0):
			t.Errorf("the doctor: %+v, want a pass", c)
		case r.cause != "" && (c.Outcome != "FAIL" || !strings.Contains(c.Detail, r.cause) || !strings.HasPrefix(slices.Concat(c.Fixes, []string{""})[0], r.fix)):
			t.Errorf("the doctor: %+v, want a failure with %q and first %q", c, r.cause, r.fix)
		case r.cause != "" && status != "3\n":
			t.Errorf("the doctor exits %q, want 3", status)
		}
		return
	}
	t.Errorf("the doctor does not look at user namespaces:\n%s", stdout)
}

// checkProbe looks at how a worker that is to start ends.
func (r restricted) checkProbe(t *testing.T, stderr, status string) {
	t.Helper()
	if r.cause == "" {
		if status != "0\n" {
			t.Errorf("the probe exits %q: %s", status, stderr)
		}
		return
	}
	first, _, _ := strings.Cut(stderr, "\n")
	if status != "3\n" || !strings.Contains(first, "the sandbox never started") || !strings.Contains(first, r.all) || !strings.Contains(stderr, r.cause) {
		t.Errorf("the probe exits %q and says %q, want a refusal with %q and %q", status, stderr, r.all, r.cause)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
