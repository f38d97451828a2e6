package config

import (
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// idCount is how many ids a sandbox's user namespace has.
const idCount = 65536

func (d *document) decodeCrun(c *Crun) error {
	at := func(name string) string { return strings.ReplaceAll(tableCrun, ".", sep) + sep + name }
	*c = Crun{
		Program: d.k.String(at("program")), StateDir: d.k.String(at("state_dir")), Rooms: d.k.String(at("rooms")),
		User: d.k.String(at("user")), CgroupParent: d.k.String(at("cgroup_parent")), CPUMilli: d.k.Int64(at("cpu_milli")),
		NoPivot: d.k.Bool(at("no_pivot")), OrphanAfterSecs: d.k.Int64(at("orphan_after_secs")),
	}
	for name, value := range map[string]string{"program": c.Program, "rooms": c.Rooms} {
		if value == "" {
			return d.refuse(at(name), "worker.sandbox.crun.%s is empty; leave the key out for the default", name)
		}
	}
	if err := d.checkProgram(at("program"), c.Program, "crun", "runc", "runsc"); err != nil {
		return err
	}
	if !cleanDir(c.StateDir) {
		return d.refuse(at("state_dir"), "state_dir %.128q is no clean absolute path; name a directory of the worker's own, such as \"/var/lib/batlehub-sandbox/crun\"", c.StateDir)
	}
	if fault := groupFault(c.CgroupParent); fault != "" {
		return d.refuse(at("cgroup_parent"), "cgroup_parent %.64q %s; want a path from the hierarchy's root, such as \"batlehub-sandbox\"", c.CgroupParent, fault)
	}
	if fault := userFault(c.User); fault != "" {
		return d.refuse(at("user"), "user %.64q %s; want uid or uid:gid, each a number from 1 to %d", c.User, fault, idCount-1)
	}
	base := d.k.Int64(at("userns_base"))
	switch {
	case base < idCount:
		return d.refuse(at("userns_base"), "userns_base is %d: the ids from there on are those of this host's own accounts, want %d to %d", base, idCount, lastBase)
	case base > lastBase:
		return d.refuse(at("userns_base"), "userns_base is %d: the %d ids from there on pass the last id there is, want %d to %d", base, idCount, idCount, lastBase)
	}
	c.UsernsBase = uint32(base)
	return d.decodeDigests(c, at("digests"))
}

// lastBase is the last id from which on there are idCount ids: the very last
// one is nobody's.
const lastBase = math.MaxUint32 - idCount

func (d *document) decodeDigests(c *Crun, at string) error {
	table, _ := d.k.Get(at).(map[string]any)
	c.Digests = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		digest, _ := table[name].(string)
		if !validScannerName(name) || !isDigest(digest) {
			return d.refuse(at+sep+name, "digests %.64q is %.80s, want a scanner's name and the \"sha256:…\" of its room, as sandboxctl tree --pin prints it", name, describe(table[name]))
		}
		c.Digests[name] = digest
		file, line := d.origin(at + sep + name)
		c.Pins = append(c.Pins, Pin{Scanner: name, File: file, Line: line})
	}
	return nil
}

func cleanDir(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && p != "/" }

var digestForm = regexp.MustCompile("^sha256:[0-9a-f]{64}$")

func isDigest(s string) bool { return digestForm.MatchString(s) }

// groupFault says why a path can't be that of a cgroup.
func groupFault(p string) string {
	switch {
	case path.IsAbs(p):
		return "is absolute"
	case p == "" || p == "." || path.Clean(p) != p || strings.HasPrefix(p, ".."):
		return "is no clean path below the root"
	case strings.ContainsAny(p, " \t\n\\"):
		return "has a blank or a backslash"
	}
	return ""
}

// userFault says why nobody can run as that inside a sandbox.
func userFault(s string) string {
	uid, gid, two := strings.Cut(s, ":")
	if !two {
		gid = uid
	}
	for _, id := range []string{uid, gid} {
		n, err := strconv.ParseUint(id, 10, 16)
		switch {
		case err != nil || strconv.FormatUint(n, 10) != id:
			return "is no pair of ids"
		case n == 0:
			return "has id 0, which owns all that is in a sandbox"
		}
	}
	return ""
}

// checkForCrun refuses what a scanner asks for that the crun runtime has not,
// and what it alone has elsewhere.
func (d *document) checkForCrun(sandbox Sandbox, s Scanner) error {
	at := func(key string) string { return "scanners" + sep + s.Name + sep + key }
	if sandbox.Offline() {
		for key, on := range map[string]bool{"network": s.Network != nil && *s.Network, "online": s.Online} {
			if on {
				return d.refuse(at(key), "%s is true on scanner '%s', and %s", key, s.Name, NoNetwork(sandbox.Runtime))
			}
		}
	}
	if s.SeccompProfile == "" && s.SeccompSHA256 == "" {
		return nil
	}
	switch {
	case sandbox.Runtime != "crun":
		key := "seccomp_profile"
		if s.SeccompProfile == "" {
			key = "seccomp_sha256"
		}
		return d.refuse(at(key), "%s on scanner '%s' has no effect under runtime '%s'; it is read by the crun runtime", key, s.Name, sandbox.Runtime)
	case path.Base(sandbox.Crun.Program) == "runsc":
		return d.refuse(at("seccomp_profile"), "scanner '%s' has a seccomp profile of its own, which runsc can't be trusted to keep; set [worker.sandbox.crun] program to crun or runc, or leave the profile out", s.Name)
	case s.SeccompProfile == "":
		return d.refuse(at("seccomp_sha256"), "seccomp_sha256 on scanner '%s' pins no file; set seccomp_profile as well", s.Name)
	case !cleanDir(s.SeccompProfile):
		return d.refuse(at("seccomp_profile"), "seccomp_profile %.128q of scanner '%s' is no clean absolute path", s.SeccompProfile, s.Name)
	case s.SeccompSHA256 == "":
		return d.refuse(at("seccomp_profile"), "seccomp_profile on scanner '%s' is not pinned; set seccomp_sha256 to the digest of the file that was looked at", s.Name)
	case !isDigest(s.SeccompSHA256):
		return d.refuse(at("seccomp_sha256"), "seccomp_sha256 %.80q of scanner '%s' is no digest; want \"sha256:\" and 64 hexadecimal digits", s.SeccompSHA256, s.Name)
	}
	return nil
}

// NoNetwork says what becomes of a scanner that needs a network under a runtime
// that has none, and what to do.
func NoNetwork(runtime string) string {
	return fmt.Sprintf("sandboxes of runtime '%s' never have a network; set it to false where the scanner does without, or use the oci or kubernetes runtime", runtime)
}
