package crun

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// host is where the kernel shows what it has: the real root, or a tree that a
// test has laid out like one.
type host struct {
	root string
	// hidden allows crun on a hybrid cgroup layout whose second half is hidden
	// from it. Tests do that; nothing else can.
	hidden bool
}

func (h host) path(name string) string { return filepath.Join("/", h.root, name) }

func (h host) has(name string) bool {
	_, err := os.Lstat(h.path(name))
	return err == nil
}

// namespaces are those that a sandbox can't be without, in the order in which
// they are looked for.
var namespaces = []string{"pid", "mnt", "net", "uts"}

// facts looks at the kernel: which namespaces it has, and what a sandbox's
// configuration depends on besides. The cgroups are looked at elsewhere.
func (h host) facts() (Facts, *sandbox.Error) {
	const ns = "/proc/self/ns/"
	if !h.has(ns + "user") {
		return Facts{}, &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeNotRootless,
			Detail: "this kernel has no user namespace (CONFIG_USER_NS), and without one a sandbox's root is the host's",
			Hint:   "use a kernel with user namespaces",
		}
	}
	for _, name := range namespaces {
		if !h.has(ns + name) {
			return Facts{}, noEngine(fmt.Sprintf("this kernel has no %s namespace (CONFIG_NAMESPACES)", name), nil,
				"use a kernel with all namespaces")
		}
	}
	f := Facts{
		IPC: h.has(ns + "ipc"), CgroupNS: h.has(ns + "cgroup"),
		Ramdisk: h.ramdisk(), Keys: h.has("/proc/keys") || h.has("/proc/sys/kernel/keys"),
	}
	if !f.IPC && h.has("/proc/sysvipc") {
		return Facts{}, noEngine("this kernel has System V IPC and no ipc namespace (CONFIG_IPC_NS): sandboxes would share it", nil,
			"use a kernel with ipc namespaces")
	}
	var fault *sandbox.Error
	if f.OpenFiles, fault = h.openFiles(); fault != nil {
		return Facts{}, fault
	}
	return f, nil
}

// ramdisk says whether this process's root is the kernel's first file system,
// as it is on a host without an operating system that runs from its initramfs.
func (h host) ramdisk() bool {
	mounts, err := h.mounts()
	if err != nil {
		return false
	}
	first := false
	for _, m := range mounts {
		if m.Mountpoint == "/" {
			first = m.FSType == "rootfs"
		}
	}
	return first
}

// mounts are those that this process sees, in the order in which they were made.
func (h host) mounts() ([]*mountinfo.Info, error) {
	f, err := os.Open(h.path("/proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mountinfo.GetMountsFromReader(f, nil)
}

// capabilities that making a sandbox takes, by their names and numbers.
var needed = []struct {
	name string
	bit  uint
}{
	{"CAP_CHOWN", unix.CAP_CHOWN},
	{"CAP_SETGID", unix.CAP_SETGID},
	{"CAP_SETUID", unix.CAP_SETUID},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
}

// mayMap says whether this process may write the map of a sandbox's user
// namespace, and that the map is one in which no id is anybody's.
func (h host) mayMap(base uint32) *sandbox.Error {
	refused := func(format string, args ...any) *sandbox.Error {
		return &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeNotRootless, Detail: fmt.Sprintf(format, args...),
			Hint: "run the worker as root, and give userns_base a range of ids that nobody has",
		}
	}
	if err := checkRange(base); err != nil {
		return refused("%v", err)
	}
	status, err := h.status()
	if err != nil {
		return refused("reading the process's status: %v", err)
	}
	for _, id := range append(strings.Fields(status["Uid"]), strings.Fields(status["Gid"])...) {
		if n, err := strconv.ParseUint(id, 10, 32); err != nil || inRange(base, uint32(n)) {
			return refused("the worker's own id %s is one of a sandbox's ids %d to %d", id, base, base+usernsSize-1)
		}
	}
	effective, err := strconv.ParseUint(status["CapEff"], 16, 64)
	if err != nil {
		return refused("the kernel does not show the process's capabilities")
	}
	for _, c := range needed {
		if effective&(1<<c.bit) == 0 {
			return refused("the worker lacks %s, without which it can't write a user namespace's map", c.name)
		}
	}
	for _, name := range []string{"uid_map", "gid_map"} {
		if !h.covers(name, base) {
			return refused("the ids %d to %d are not in the worker's own /proc/self/%s", base, base+usernsSize-1, name)
		}
	}
	return nil
}

func (h host) status() (map[string]string, error) {
	b, err := os.ReadFile(h.path("/proc/self/status"))
	if err != nil {
		return nil, err
	}
	status := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status, nil
}

// covers says whether one line of a map of this process's own user namespace
// holds the whole range.
func (h host) covers(name string, base uint32) bool {
	b, err := os.ReadFile(h.path("/proc/self/" + name))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 32)
		size, err2 := strconv.ParseUint(fields[2], 10, 64)
		if err1 == nil && err2 == nil && first <= uint64(base) && uint64(base)+usernsSize <= first+size {
			return true
		}
	}
	return false
}

func noEngine(detail string, err error, hint string) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeNoEngine, Detail: detail, Err: err, Hint: hint}
}
