package main

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"unshare-user":    unshareUser,
		"unshare-each":    unshareEach,
		"clone-newuser":   cloneNewUser,
		"clone3":          clone3,
		"setns":           setns,
		"mount":           mountOld,
		"mount-new-api":   mountNew,
		"umount":          umount,
		"chroot":          chroot,
		"pivot-root":      pivotRoot,
		"sethostname":     setHostname,
		"namespace-links": namespaceLinks,
	})
}

func unshareUser(r *attempt.Report, _ []string) {
	// A process with threads gets EINVAL, from a kernel that was asked.
	permitted(r, "unshare CLONE_NEWUSER", raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER))
}

// The kinds of namespaces by the flag that makes a new one.
var kinds = []struct {
	name string
	flag uintptr
}{
	{"mount", unix.CLONE_NEWNS},
	{"uts", unix.CLONE_NEWUTS},
	{"ipc", unix.CLONE_NEWIPC},
	{"net", unix.CLONE_NEWNET},
	{"pid", unix.CLONE_NEWPID},
	{"cgroup", unix.CLONE_NEWCGROUP},
	{"time", unix.CLONE_NEWTIME},
}

func unshareEach(r *attempt.Report, _ []string) {
	for _, k := range kinds {
		permitted(r, "unshare "+k.name, raw(unix.SYS_UNSHARE, k.flag))
	}
}

// cloneNewUser asks clone(2) for a namespace of each kind. The child that a
// missing wall would let through leaves at once.
func cloneNewUser(r *attempt.Report, _ []string) {
	const sigchld = uintptr(unix.SIGCHLD)
	for _, k := range append(kinds[:6:6], struct {
		name string
		flag uintptr
	}{"user", unix.CLONE_NEWUSER}) {
		got(r, "clone "+k.name, cloneAndExit(k.flag|sigchld))
	}
}

// clone3 asks for a user namespace through the call whose flags no filter can
// see; only ENOSYS for the call as a whole is a wall that programs survive.
func clone3(r *attempt.Report, _ []string) {
	args := struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64 }{
		flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD),
	}
	got(r, "clone3 CLONE_NEWUSER", clone3AndExit(unsafe.Pointer(&args), unsafe.Sizeof(args)))
}

// setns enters the namespaces of this very process, which changes nothing, and
// the parent's.
func setns(r *attempt.Report, _ []string) {
	for _, pid := range []string{"self", strconv.Itoa(os.Getppid())} {
		for _, kind := range []string{"net", "uts", "ipc", "cgroup"} {
			name := "/proc/" + pid + "/ns/" + kind
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				r.Calls = append(r.Calls, attempt.Call{Name: "open " + name, Errno: errnoName(err)})
				continue
			}
			got(r, "setns "+name, raw(unix.SYS_SETNS, uintptr(fd), 0))
			_ = unix.Close(fd)
		}
	}
	if len(r.Calls) > 0 && r.Errno == "" && !r.Achieved {
		got(r, "setns -1", raw(unix.SYS_SETNS, ^uintptr(0), 0))
	}
}

// permitted records a call that was given arguments nobody could follow: any
// errno but the ones of a wall says that the wall was not there.
func permitted(r *attempt.Report, what string, err error) {
	name := errnoName(err)
	r.Calls = append(r.Calls, attempt.Call{Name: what, Errno: name})
	switch name {
	case "EPERM", "EACCES", "ENOSYS":
		if r.Errno == "" {
			r.Errno = name
		}
	default:
		r.Achieved = true
		r.Detail += what + " was let through (" + name + "); "
	}
}

// pinned keeps what ptr handed out from being collected.
var pinned []*byte

// ptr is the address of s as a C string, for as long as the program runs.
func ptr(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		return 0
	}
	pinned = append(pinned, p)
	return uintptr(unsafe.Pointer(p))
}

func mountOld(r *attempt.Report, _ []string) {
	permitted(r, "mount", raw(unix.SYS_MOUNT, ptr("none"), ptr("."), ptr("no-such-file-system"), 0, 0))
	permitted(r, "remount", raw(unix.SYS_MOUNT, 0, ptr("/no-such-mount-point"), 0, unix.MS_REMOUNT|unix.MS_BIND, 0))
}

func mountNew(r *attempt.Report, _ []string) {
	bad := ^uintptr(0)
	permitted(r, "fsopen", raw(unix.SYS_FSOPEN, ptr("no-such-file-system"), 0))
	permitted(r, "fsconfig", raw(unix.SYS_FSCONFIG, bad, 99, 0, 0, 0))
	permitted(r, "fsmount", raw(unix.SYS_FSMOUNT, bad, 0, 0))
	permitted(r, "fspick", raw(unix.SYS_FSPICK, bad, ptr("/no-such"), 0))
	permitted(r, "move_mount", raw(unix.SYS_MOVE_MOUNT, bad, ptr("a"), bad, ptr("b"), 0))
	permitted(r, "open_tree", raw(unix.SYS_OPEN_TREE, bad, ptr("/no-such"), 1))
	permitted(r, "mount_setattr", raw(unix.SYS_MOUNT_SETATTR, bad, ptr("x"), 0, 0, 0))
}

func umount(r *attempt.Report, _ []string) {
	permitted(r, "umount2", raw(unix.SYS_UMOUNT2, ptr("/no-such-mount-point"), unix.MNT_DETACH))
}

func chroot(r *attempt.Report, _ []string) {
	permitted(r, "chroot", raw(unix.SYS_CHROOT, ptr("/no-such-directory")))
	got(r, "chroot .", raw(unix.SYS_CHROOT, ptr(".")))
}

func pivotRoot(r *attempt.Report, _ []string) {
	permitted(r, "pivot_root", raw(unix.SYS_PIVOT_ROOT, ptr("/no-such"), ptr("/no-such/old")))
}

// setHostname sets the name that is already set.
func setHostname(r *attempt.Report, _ []string) {
	name, err := os.Hostname()
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	got(r, "sethostname", unix.Sethostname([]byte(name)))
}

// namespaceLinks lists which namespaces this process is in.
func namespaceLinks(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	for _, kind := range []string{"mnt", "uts", "ipc", "net", "pid", "user", "cgroup"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			link = errnoName(err)
		}
		r.Values[kind] = []string{link}
	}
	host, err := os.Hostname()
	if err != nil {
		host = errnoName(err)
	}
	r.Values["hostname"] = []string{host}
}
