package oci

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestTheInnermostMountSaysWhetherPodmanFindsItsNetworksAgain(t *testing.T) {
	const private, shared, slave, absent = "", "shared:3 ", "master:1 ", "-"
	for _, c := range []struct {
		root, run, own string
		want           bool
	}{
		{shared, absent, absent, true},
		{private, absent, absent, false},
		{slave, absent, absent, false},
		{private, absent, shared, true},
		{shared, private, absent, false},
		{shared, private, "shared:9 master:1 ", true},
	} {
		lines := "27 1 254:0 / / rw " + c.root + "- ext4 /dev/vda rw\n28 27 0:5 / /runner rw - tmpfs t rw\n"
		if c.run != absent {
			lines += "30 27 0:6 / /run rw " + c.run + "- tmpfs t rw\n"
		}
		if c.own != absent {
			lines += "31 27 0:6 /netns /run/netns rw " + c.own + "- tmpfs t rw\n"
		}
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(lines), mountinfo.ParentsFilter(netnsDir))
		if err != nil {
			t.Fatal(err)
		}
		if got := propagates(mounts); got != c.want {
			t.Errorf("%+v: got %t of\n%s", c, got, lines)
		}
	}
}
