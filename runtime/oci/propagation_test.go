package oci

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestTheInnermostMountSaysWhetherPodmanFindsItsNetworksAgain(t *testing.T) {
	const private, shared, slave = "", "shared:3 ", "master:1 "
	for _, c := range []struct {
		root, run, own string
		want           bool
	}{
		{root: shared, want: true},
		{root: private},
		{root: slave},
		{root: private, own: shared, want: true},
		{root: shared, run: private},
		{root: shared, run: private, own: "shared:9 master:1 ", want: true},
	} {
		lines := "27 1 254:0 / / rw " + c.root + "- ext4 /dev/vda rw\n28 27 0:5 / /runner rw - tmpfs t rw\n"
		if c.run != "" || c.own != "" {
			lines += "30 27 0:6 / /run rw " + c.run + "- tmpfs t rw\n"
		}
		if c.own != "" {
			lines += "31 30 0:6 /netns /run/netns rw " + c.own + "- tmpfs t rw\n"
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
