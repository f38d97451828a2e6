package oci

import (
	"strings"

	"github.com/moby/sys/mountinfo"
)

// netnsDir is where podman keeps the network namespaces of its containers.
const netnsDir = "/run/netns"

// LosesNetworks says whether podman would leave every network namespace and its
// links behind. It mounts the namespace of a container with a user namespace of
// its own here, while the process that takes it away again lives in a copy of
// this mount namespace, made before, which learns of it by propagation alone
// (seen: podman 4.3.1). Systemd makes all of a host's mounts shared; where
// something else is the first process they often are not.
func LosesNetworks() bool {
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(netnsDir))
	return err == nil && !propagates(mounts)
}

// propagates says whether the innermost of the mounts that hold one path is
// shared with other namespaces.
func propagates(mounts []*mountinfo.Info) bool {
	var innermost *mountinfo.Info
	for _, m := range mounts {
		if innermost == nil || len(m.Mountpoint) >= len(innermost.Mountpoint) {
			innermost = m
		}
	}
	return innermost != nil && strings.Contains(innermost.Optional, "shared:")
}
