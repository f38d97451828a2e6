package stage

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The versions of Landlock that know what is asked of it here.
const (
	// versionRefer is the first that lets a domain's files be moved from one
	// directory to another. With the one before, no scanner could.
	versionRefer    = 2
	versionTruncate = 3
	versionIoctl    = 5
	versionScopes   = 6
)

// LandlockVersion is the kernel's, 0 where it has none or a filter around this
// program does not let it be asked for.
func LandlockVersion() int {
	v, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// CanClose reports whether a directory can be closed to a scanner here.
func CanClose() bool { return LandlockVersion() >= versionRefer }

// domainFor is the Landlock domain that every scanner is put into. Abstract unix
// sockets go by the network namespace and signals by the uid, so where a run
// has the host's network, or no walls at all, neither a mount nor a filter
// keeps it from a stranger's: two runs could meet at a name, and hand their
// work directories to each other. Inside one domain, which a scanner's
// children inherit, both work as ever, and so do signals from outside. That
// its processes trace none outside of it, and open no such process's memory,
// comes with every domain.
//
// Files are its business only where a directory is to be closed: the one
// through which an engine passes bundle and result, which the scanner's uid
// could write to otherwise.
//
// See https://docs.kernel.org/userspace-api/landlock.html, "IPC scoping".
func domainFor(version int, closed []string) unix.LandlockRulesetAttr {
	var a unix.LandlockRulesetAttr
	if version >= versionScopes {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if version < versionRefer || len(closed) == 0 {
		return a
	}
	a.Handled_access_fs = unix.LANDLOCK_ACCESS_FS_REFER<<1 - 1
	if version >= versionTruncate {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= versionIoctl {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return a
}

// noDomain in the place of a domain's descriptor leaves the scanner without.
const noDomain = -1

// makeDomain returns the descriptor of the domain, or noDomain where the kernel
// knows none of what is wanted, or a filter around this program does not let
// it be asked for; any other failure is one. The descriptor closes on execve.
func (o *order) makeDomain() (int, error) {
	if o.wanted == (unix.LandlockRulesetAttr{}) {
		return noDomain, nil
	}
	fd, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&o.wanted)), unsafe.Sizeof(o.wanted), 0)
	switch errno {
	case 0:
	case unix.ENOSYS, unix.EOPNOTSUPP, unix.E2BIG, unix.EINVAL, unix.EPERM:
		return noDomain, nil
	default:
		return noDomain, errno
	}
	if o.wanted.Handled_access_fs == 0 {
		return int(fd), nil
	}
	a := allowance{ruleset: int(fd), rights: o.wanted.Handled_access_fs, closed: o.closed}
	if err := a.all(o.workDir); err != nil {
		_ = unix.Close(int(fd))
		return noDomain, fmt.Errorf("allowing what is not closed: %w", err)
	}
	return int(fd), nil
}

// allowance allows a domain every file but those below closed directories.
// Landlock has no other way to close one: it denies what no rule allows. What
// is on the way to a closed directory, the root above all, can't be listed.
type allowance struct {
	ruleset int
	rights  uint64
	closed  []string
}

func (a allowance) all(workDir string) error {
	if err := a.below("/"); err != nil {
		return err
	}
	// A closed directory may have the work directory in it.
	if filepath.IsAbs(workDir) {
		return a.allow(workDir)
	}
	return nil
}

func (a allowance) below(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(a.closed, path):
		case e.Type()&fs.ModeSymlink != 0:
			// Where it leads to has a rule of its own, or is closed.
		case slices.ContainsFunc(a.closed, func(c string) bool { return strings.HasPrefix(c, path+"/") }):
			err = a.below(path)
		default:
			err = a.allow(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rightsOfFiles are the rights that a rule for anything but a directory may
// give.
const rightsOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

func (a allowance) allow(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "opening", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &fs.PathError{Op: "looking at", Path: path, Err: err}
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: a.rights, Parent_fd: int32(fd)}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= rightsOfFiles
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(a.ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "allowing", Path: path, Err: errno}
	}
	return nil
}
