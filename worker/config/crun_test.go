package config

import (
	"maps"
	"strings"
	"testing"
	"time"
)

const (
	crunTable = "[worker.sandbox]\nruntime = \"crun\"\n"
	someSum   = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// crunRefusals are the rules of the crun runtime, each with the whole message
// behind "config.toml".
var crunRefusals = []refusal{
	{"root inside", "[worker.sandbox.crun]\nuser = \"0:0\"", `:2: user "0:0" has id 0, which owns all that is in a sandbox; want uid or uid:gid, each a number from 1 to 65535`},
	{"root's group inside", "[worker.sandbox.crun]\nuser = \"1000:0\"", `:2: user "1000:0" has id 0, which owns all that is in a sandbox; want uid or uid:gid, each a number from 1 to 65535`},
	{"root by one number", "[worker.sandbox.crun]\nuser = \"0\"", `:2: user "0" has id 0, which owns all that is in a sandbox; want uid or uid:gid, each a number from 1 to 65535`},
	{"a user by name", "[worker.sandbox.crun]\nuser = \"nobody\"", `:2: user "nobody" is no pair of ids; want uid or uid:gid, each a number from 1 to 65535`},
	{"a user with a sign", "[worker.sandbox.crun]\nuser = \"+1:1\"", `:2: user "+1:1" is no pair of ids; want uid or uid:gid, each a number from 1 to 65535`},
	{"a user of three parts", "[worker.sandbox.crun]\nuser = \"1:1:1\"", `:2: user "1:1:1" is no pair of ids; want uid or uid:gid, each a number from 1 to 65535`},
	{"a user beyond the range", "[worker.sandbox.crun]\nuser = \"65536\"", `:2: user "65536" is no pair of ids; want uid or uid:gid, each a number from 1 to 65535`},
	{"ids from the host's root on", "[worker.sandbox.crun]\nuserns_base = 0", `:2: userns_base is 0: the ids from there on are those of this host's own accounts, want 65536 to 4294901759`},
	{"ids of accounts", "[worker.sandbox.crun]\nuserns_base = 65535", `:2: userns_base is 65535: the ids from there on are those of this host's own accounts, want 65536 to 4294901759`},
	{"ids below all", "[worker.sandbox.crun]\nuserns_base = -1", `:2: userns_base is -1: the ids from there on are those of this host's own accounts, want 65536 to 4294901759`},
	{"ids past the last", "[worker.sandbox.crun]\nuserns_base = 4294901760", `:2: userns_base is 4294901760: the 65536 ids from there on pass the last id there is, want 65536 to 4294901759`},
	{"a program of the working directory's", crunTable + "[worker.sandbox.crun]\nprogram = \"./runc\"", `:4: worker.sandbox.crun.program = "./runc" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"rooms from nowhere", crunTable + "[worker.sandbox.crun]\nrooms = \"../rooms\"", `:4: worker.sandbox.crun.rooms = "../rooms" is relative, and would be another place wherever the worker is started; write the path from the root`},
	{"no program", "[worker.sandbox.crun]\nprogram = \"\"", `:2: worker.sandbox.crun.program is empty; leave the key out for the default`},
	{"no rooms", "[worker.sandbox.crun]\nrooms = \"\"", `:2: worker.sandbox.crun.rooms is empty; leave the key out for the default`},
	{"a state directory of the working directory", "[worker.sandbox.crun]\nstate_dir = \"state\"", `:2: state_dir "state" is no clean absolute path; name a directory of the worker's own, such as "/var/lib/batlehub-sandbox/crun"`},
	{"the root for state", "[worker.sandbox.crun]\nstate_dir = \"/\"", `:2: state_dir "/" is no clean absolute path; name a directory of the worker's own, such as "/var/lib/batlehub-sandbox/crun"`},
	{"a cgroup from the mount on", "[worker.sandbox.crun]\ncgroup_parent = \"/sys/fs/cgroup/x\"", `:2: cgroup_parent "/sys/fs/cgroup/x" is absolute; want a path from the hierarchy's root, such as "batlehub-sandbox"`},
	{"a cgroup that climbs", "[worker.sandbox.crun]\ncgroup_parent = \"../x\"", `:2: cgroup_parent "../x" is no clean path below the root; want a path from the hierarchy's root, such as "batlehub-sandbox"`},
	{"a cgroup with a blank", "[worker.sandbox.crun]\ncgroup_parent = \"a b\"", `:2: cgroup_parent "a b" has a blank or a backslash; want a path from the hierarchy's root, such as "batlehub-sandbox"`},
	{"no CPU", "[worker.sandbox.crun]\ncpu_milli = 0", `:2: worker.sandbox.crun.cpu_milli is 0, want 10 to 1048576: the kernel takes no quota of less than 1 ms in each 100 ms`},
	{"less CPU than there can be", "[worker.sandbox.crun]\ncpu_milli = 9", `:2: worker.sandbox.crun.cpu_milli is 9, want 10 to 1048576: the kernel takes no quota of less than 1 ms in each 100 ms`},
	{"a digest that is none", "[worker.sandbox.crun.digests]\ngitleaks = \"sha256:0\"", `:2: digests "gitleaks" is the string "sha256:0", want a scanner's name and the "sha256:…" of its room, as sandboxctl tree --pin prints it`},
	{"a digest that is a number", "[worker.sandbox.crun.digests]\ngitleaks = 1", `:2: digests "gitleaks" is the number 1, want a scanner's name and the "sha256:…" of its room, as sandboxctl tree --pin prints it`},
	{"a key with a slip", "[worker.sandbox.crun]\nprogramm = \"runc\"", `:2: unknown key "programm" in [worker.sandbox.crun]; did you mean "program"?`},

	{"as much unpacked as there is memory", crunTable + "max_extracted_mb = 2048", `:3: max_extracted_mb is 2048 and memory_limit_mb 2048: under runtime 'crun' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb`},
	{"a scanner with a network", crunTable + "[scanners.trivy]\nnetwork = true", `:4: network is true on scanner 'trivy', and sandboxes of runtime 'crun' never have a network; set it to false where the scanner does without, or use the oci or kubernetes runtime`},
	{"a scanner that asks code hosts", crunTable + "[scanners.postmortem]\nonline = true", `:4: online is true on scanner 'postmortem', and sandboxes of runtime 'crun' never have a network; set it to false where the scanner does without, or use the oci or kubernetes runtime`},
	{"an image", crunTable + "[scanners.gitleaks]\nimage = \"x\"", `:4: image on scanner 'gitleaks' has no effect under runtime 'crun'; it is read by the oci and kubernetes runtimes`},
	{"a profile elsewhere", "[scanners.gitleaks]\nseccomp_profile = \"/x\"", `:2: seccomp_profile on scanner 'gitleaks' has no effect under runtime 'bwrap'; it is read by the crun runtime`},
	{"a pin elsewhere", "[scanners.gitleaks]\nseccomp_sha256 = \"x\"", `:2: seccomp_sha256 on scanner 'gitleaks' has no effect under runtime 'bwrap'; it is read by the crun runtime`},
	{"a profile without a pin", crunTable + "[scanners.gitleaks]\nseccomp_profile = \"/x\"", `:4: seccomp_profile on scanner 'gitleaks' is not pinned; set seccomp_sha256 to the digest of the file that was looked at`},
	{"a pin without a profile", crunTable + "[scanners.gitleaks]\nseccomp_sha256 = \"" + someSum + "\"", `:4: seccomp_sha256 on scanner 'gitleaks' pins no file; set seccomp_profile as well`},
	{"a profile of the working directory", crunTable + "[scanners.gitleaks]\nseccomp_profile = \"x\"", `:4: seccomp_profile "x" of scanner 'gitleaks' is no clean absolute path`},
	{"a pin that is no digest", crunTable + "[scanners.gitleaks]\nseccomp_profile = \"/x\"\nseccomp_sha256 = \"1\"", `:5: seccomp_sha256 "1" of scanner 'gitleaks' is no digest; want "sha256:" and 64 hexadecimal digits`},
	{"a profile under runsc", crunTable + "[worker.sandbox.crun]\nprogram = \"/opt/runsc\"\n[scanners.gitleaks]\nseccomp_profile = \"/x\"\nseccomp_sha256 = \"" + someSum + "\"", `:6: scanner 'gitleaks' has a seccomp profile of its own, which runsc can't be trusted to keep; set [worker.sandbox.crun] program to crun or runc, or leave the profile out`},
}

func TestEachRuleOfTheCrunRuntimeIsSaidInOneLine(t *testing.T) { checkRefusals(t, crunRefusals) }

func TestTheCrunTableIsReadWithItsDigestsAndProfiles(t *testing.T) {
	c := load(t, crunTable+`
[worker.sandbox.crun]
program = "runc"
state_dir = "/srv/crun"
rooms = "/srv/rooms"
userns_base = 4294901759
user = "1000"
cgroup_parent = "sandboxes/crun"
cpu_milli = 500
no_pivot = true
orphan_after_secs = 60
[worker.sandbox.crun.digests]
gitleaks = "`+someSum+`"
[scanners.gitleaks]
seccomp_profile = "/etc/gitleaks.json"
seccomp_sha256 = "`+someSum+`"
[scanners.trivy]
network = false
`)
	got, digests := c.Worker.Sandbox.Crun, c.Worker.Sandbox.Crun.Digests
	got.Digests = nil
	want := Crun{
		Program: "runc", StateDir: "/srv/crun", Rooms: "/srv/rooms", UsernsBase: 4294901759, User: "1000",
		CgroupParent: "sandboxes/crun", CPUMilli: 500, NoPivot: true, OrphanAfterSecs: 60,
	}
	if got.Program != want.Program || got.StateDir != want.StateDir || got.Rooms != want.Rooms || got.UsernsBase != want.UsernsBase ||
		got.User != want.User || got.CgroupParent != want.CgroupParent || got.CPUMilli != want.CPUMilli || !got.NoPivot || c.Worker.Sandbox.OrphanAfter() != time.Minute {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !maps.Equal(digests, map[string]string{"gitleaks": someSum}) || c.Scanners["gitleaks"].SeccompProfile != "/etc/gitleaks.json" ||
		c.Scanners["gitleaks"].SeccompSHA256 != someSum || len(c.Warnings) != 0 || !c.Worker.Sandbox.Offline() {
		t.Errorf("%v %+v %v", digests, c.Scanners, c.Warnings)
	}
}

func TestARunDirectoryUnderCrunIsAWarning(t *testing.T) {
	c := load(t, crunTable+"run_dir = \"/tmp\"\n")
	if len(c.Warnings) != 1 || !strings.HasSuffix(c.Warnings[0].String(), `:3: run_dir has no effect under runtime "crun"; its runs are below [worker.sandbox.crun] state_dir`) {
		t.Errorf("%v", c.Warnings)
	}
}
