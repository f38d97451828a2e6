package crun

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// mounts are all that a sandbox has besides its root, in the order in which
// they are made. There is no /sys, no terminal, no shared memory, no message
// queue and no cgroup file system.
func (c Container) mounts() []specs.Mount {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{
			Destination: "/dev", Type: "tmpfs", Source: "tmpfs",
			Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=65536k"},
		},
	}
	if c.Flavour == Runsc {
		list = append(list, c.tmpForRunsc())
	}
	for _, m := range c.own() {
		list = append(list, m.render(c.Flavour))
	}
	return list
}

// tmpForRunsc keeps runsc from mounting a writable /tmp of its own, as it does
// where no mount is at /tmp and nothing is in it. Where the room's /tmp is a
// link into the scratch space, there is nothing to mount on yet: runsc passes
// over file systems that it doesn't know, and leaves the link as it is.
func (c Container) tmpForRunsc() specs.Mount {
	if !c.TmpDir {
		return specs.Mount{Destination: "/tmp", Type: "unchanged", Source: "none"}
	}
	return specs.Mount{
		Destination: "/tmp", Type: "tmpfs", Source: "tmpfs",
		Options: []string{"ro", "size=4k", "mode=555", "noexec", "nosuid", "nodev"},
	}
}

// own are the mounts of this run: the scratch space, the inputs, and last the
// one writable bind.
func (c Container) own() []mount {
	list := []mount{{
		inside: workDir, writable: true, mode: 0o1777,
		sizeMB: mebibytes(c.Policy.MaxBytes), inodes: c.Policy.MaxEntries + spareInodes,
	}}
	for _, in := range c.Inputs {
		list = append(list, mount{host: in.Host, inside: in.Inside})
	}
	return append(list, mount{host: c.Out, inside: outDir, writable: true})
}

// mebibytes rounds up.
func mebibytes(n int64) int64 { return (n-1)>>20 + 1 }

func (m mount) render(f Flavour) specs.Mount {
	if m.host == "" {
		return specs.Mount{
			Destination: m.inside, Type: "tmpfs", Source: "tmpfs",
			Options: []string{
				"rw", fmt.Sprintf("size=%dm", m.sizeMB), "nr_inodes=" + strconv.FormatInt(m.inodes, 10),
				"mode=" + strconv.FormatUint(uint64(m.mode), 8), "noexec", "nosuid", "nodev",
			},
		}
	}
	access := "ro"
	if m.writable {
		access = "rw"
	}
	options := []string{"rbind", access, "nosuid", "nodev", "noexec"}
	if f != Runsc {
		// crun 1.8.1 drops the plain ones in a user namespace, and keeps the
		// recursive ones.
		options = append(options, "rnosuid", "rnodev", "rnoexec")
	}
	return specs.Mount{Destination: m.inside, Type: "bind", Source: m.host, Options: options}
}
