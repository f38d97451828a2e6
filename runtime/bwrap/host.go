package bwrap

import (
	"os"
	"path/filepath"
	"strings"
)

// Diagnosis is why a host does not let bwrap make a sandbox.
type Diagnosis struct {
	// Cause is the reason in a few words: a sysctl and its value where there
	// is one to blame.
	Cause string
	// Fixes are what to do, the narrowest first.
	Fixes []string
}

// Hint is the one line for an error: the cause and where to read on.
func (d Diagnosis) Hint() string { return d.Cause + "; " + docs }

// profileFix lets bwrap alone make user namespaces, where a sysctl would let
// everything.
const profileFix = `let bwrap alone make user namespaces, with an AppArmor profile in /etc/apparmor.d/bwrap: ` +
	`abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, } ` +
	`and then: apparmor_parser -r /etc/apparmor.d/bwrap`

// sysctls are the switches that forbid unprivileged user namespaces.
var sysctls = []struct {
	path, name, forbids string
	fixes               []string
}{
	{
		"sys/kernel/apparmor_restrict_unprivileged_userns", "kernel.apparmor_restrict_unprivileged_userns", "1",
		[]string{profileFix, "or for every program: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
	},
	{
		"sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0",
		[]string{"sysctl -w kernel.unprivileged_userns_clone=1"},
	},
	{
		"sys/user/max_user_namespaces", "user.max_user_namespaces", "0",
		[]string{"sysctl -w user.max_user_namespaces=16384"},
	},
}

// Diagnose tells why bwrap said what it said, from the switches below proc,
// which is /proc. Without words of bwrap it tells what would stop it: the
// Cause is empty then if nothing is known to.
func Diagnose(proc, stderr string) Diagnosis {
	order := []int{0, 1, 2}
	if strings.Contains(stderr, "ENOSPC") || strings.Contains(stderr, "nesting depth") {
		order = []int{2, 0, 1}
	}
	for _, i := range order {
		s := sysctls[i]
		b, err := os.ReadFile(filepath.Join(proc, s.path))
		if err == nil && strings.TrimSpace(string(b)) == s.forbids {
			return Diagnosis{Cause: s.name + "=" + s.forbids + " on this host", Fixes: s.fixes}
		}
	}
	switch {
	case stderr == "":
		return Diagnosis{}
	case strings.Contains(stderr, "nesting depth"):
		return Diagnosis{
			Cause: "no user namespace is left on this host, or they are nested too deep",
			Fixes: []string{"raise user.max_user_namespaces, or run the worker outside other sandboxes"},
		}
	case strings.Contains(stderr, "mount proc"):
		return Diagnosis{
			Cause: "/proc is partly masked here, as in most containers, and the kernel lets no new one be mounted",
			Fixes: []string{"run the worker outside a container, or with an unmasked /proc (systempaths=unconfined, procMount: Unmasked)"},
		}
	}
	return Diagnosis{
		Cause: "this host denies unprivileged user namespaces by a seccomp or AppArmor profile",
		Fixes: []string{"run the worker where unshare is allowed, or choose a runtime that needs no user namespace"},
	}
}
