package crun

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
	"github.com/batleforc/batlehub-sandbox/wire"
)

var ordinary = Facts{IPC: true, CgroupNS: true, Keys: true, Swap: true}

func TestEachFlavourGetsTheFlagsThatItKnows(t *testing.T) {
	v1 := ordinary
	v1.V1 = true
	for _, c := range []struct {
		flavour Flavour
		host    Facts
		want    string
	}{
		{Crun, ordinary, "--root /r --cgroup-manager=cgroupfs run --bundle /b name"},
		{Runc, ordinary, "--root /r run --bundle /b name"},
		{Runc, v1, "--root /r run --keep --bundle /b name"},
		{Runsc, ordinary, "--root /r --network=none --platform=systrap --oci-seccomp --overlay2=none run --bundle /b name"},
		{Runsc, v1, "--root /r --network=none --platform=systrap --oci-seccomp --overlay2=none run --bundle /b name"},
	} {
		got := strings.Join(append(global(c.flavour, "/r"), runArgs(c.flavour, c.host, "/b", "name")...), " ")
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.flavour, got, c.want)
		}
	}
}

// A host that runs from its initramfs, with a kernel without keys.
func TestOnARamdiskWithoutKeysThereIsNoPivotAndNoKeyring(t *testing.T) {
	bare := Facts{Ramdisk: true}
	for _, f := range []Flavour{Crun, Runc} {
		args := runArgs(f, bare, "/b", "name")
		if args[0] != "run" || args[len(args)-1] != "name" || slices.Contains(args, "--detach") {
			t.Errorf("%s: %q", f, args)
		}
		if !slices.Contains(args, "--no-pivot") || !slices.Contains(args, "--no-new-keyring") {
			t.Errorf("%s: %q lacks a flag", f, args)
		}
	}
	if args := runArgs(Runsc, bare, "/b", "name"); !slices.Equal(args, []string{"run", "--bundle", "/b", "name"}) {
		t.Errorf("runsc: %q", args)
	}
	for _, f := range Flavours {
		for _, flag := range runArgs(f, ordinary, "/b", "name") {
			if strings.HasPrefix(flag, "--no-") {
				t.Errorf("%s: an ordinary host has %s", f, flag)
			}
		}
	}
}

func TestTheShortVerbs(t *testing.T) {
	for want, args := range map[string][]string{
		"kill name KILL": killArgs("name"), "delete --force name": deleteArgs("name"),
		"state name": stateArgs("name"), "start name": startArgs("name"),
		"create --no-pivot --bundle /b name": createArgs(Runc, Facts{Ramdisk: true, Keys: true, V1: true}, "/b", "name"),
	} {
		if got := strings.Join(args, " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAFlavourIsKnownByTheFirstLineOfItsVersion(t *testing.T) {
	for line, want := range map[string]Flavour{
		"crun version 1.8.1": Crun, "crun version 1.21": Crun, "runc version 1.1.5+ds1": Runc, "runc version 1.3.0": Runc,
		"runsc version release-20260905.0": Runsc, "runsc version VERSION_MISSING": Runsc,
	} {
		if got, ok := FlavourOf(line); !ok || got != want {
			t.Errorf("%q is %q, %t", line, got, ok)
		}
	}
	for _, line := range []string{"", "crun", "crun version ", "youki version 0.3", "not crun version 1", "docker version 20"} {
		if f, ok := FlavourOf(line); ok {
			t.Errorf("%q is %q", line, f)
		}
	}
}

func TestAUserIsTwoNumbersAndNotRoot(t *testing.T) {
	for s, want := range map[string][2]uint32{"65532:65532": {65532, 65532}, "100:101": {100, 101}, "7": {7, 7}} {
		uid, gid, err := ParseUser(s)
		if err != nil || uid != want[0] || gid != want[1] {
			t.Errorf("%q is %d:%d, %v", s, uid, gid, err)
		}
	}
	for _, s := range []string{"", "nobody", "0", "0:5", "5:0", "1:2:3", "+1", "-1", " 1", "1 ", "01", "1:", ":1", "65536", "4294967296", "1\n"} {
		if uid, gid, err := ParseUser(s); err == nil {
			t.Errorf("%q is %d:%d", s, uid, gid)
		}
	}
}

func FuzzAUserIsNeverRoot(f *testing.F) {
	for _, s := range []string{"1:1", "0", "65532", "a:b", "1:2:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		uid, gid, err := ParseUser(s)
		if err == nil && (uid == 0 || gid == 0 || uid > 65535 || gid > 65535 || strings.ContainsAny(s, " +-\n")) {
			t.Errorf("%q is %d:%d", s, uid, gid)
		}
	})
}

func FuzzANameIsOneComponentOfABoundedLength(f *testing.F) {
	f.Add("w", "job", "scanner", 1)
	f.Add("w", "..", "a/b", -1)
	f.Add("w", strings.Repeat("x", 63), "s", 1_000_000)
	f.Fuzz(func(t *testing.T, worker, job, scanner string, attempt int) {
		l := wire.Label{Worker: worker, Job: job, Scanner: scanner, Attempt: attempt}
		if l.Validate() != nil {
			return
		}
		name, ok := nameOf(fmt.Sprintf("/x/batlehub-sbx~%s~%s~%s~%d~abcdefghijklmnop", worker, job, scanner, attempt))
		if want := fmt.Sprintf("batlehub-sbx-%s-abcdefghijklmnop", l); !ok || name != want {
			t.Errorf("the name is %q, want %q", name, want)
		}
		if len(name) > 200 || strings.ContainsAny(name, "/\\~ \n\x00") || name != filepath.Base(name) {
			t.Errorf("the name is %q", name)
		}
	})
}

func TestADirectoryOfAnotherMakeHasNoContainer(t *testing.T) {
	for _, dir := range []string{"", "/x/run", "/x/batlehub-sbx~w~j~s~1", "/x/a~b~c~d~e~f~g"} {
		if name, ok := nameOf(dir); ok {
			t.Errorf("%q has the container %q", dir, name)
		}
	}
}

func TestIDsAreNobodysOnTheHost(t *testing.T) {
	for base, good := range map[uint32]bool{
		0: false, 1: false, 1000: false, 65535: false, 65536: true, 100_000: true,
		1<<32 - 65536 - 1: true, 1<<32 - 65536: false, 1<<32 - 1: false,
	} {
		if err := checkRange(base); (err == nil) != good {
			t.Errorf("%d: %v", base, err)
		}
	}
}

func TestAfterTheFilterNoProgramMakesACallThatNobodyMay(t *testing.T) {
	for f, calls := range afterFilter {
		if !slices.IsSorted(calls) || !slices.Contains(calls, "execve") {
			t.Errorf("%s: %q", f, calls)
		}
		for _, name := range calls {
			if slices.Contains(seccomp.Never, name) {
				t.Errorf("%s: %s is on the never-list", f, name)
			}
		}
	}
	if _, ok := afterFilter[Runsc]; ok {
		t.Error("runsc takes a profile of one's own")
	}
}
