// Package crun runs an OCI runtime program directly: crun, runc or gVisor's
// runsc. There is no engine in between, no image store, no daemon and no
// set-uid helper: this package writes the bundle (a directory with a
// config.json) itself and starts the program over a root directory whose
// digest it has verified.
//
// A sandbox has namespaces of its own, among them a user namespace in which no
// id is the host's root; no capability at all; a read-only root; limits of a
// cgroup; the seccomp profile of package seccomp, and the agent's own filter
// inside it. Its inputs are bound read-only at /bundle, its scratch space is a
// tmpfs at /work, and the one writable bind is /out, a small tmpfs that the
// manifest arrives in and the result leaves by.
//
// The worker has to be root: it writes a user namespace's map, mounts, and
// makes cgroups. What a program can't do on a host is refused by its name, and
// never worked around.
package crun
