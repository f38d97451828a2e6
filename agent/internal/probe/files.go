package probe

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// readOnlyRoot: a file can't be made where programs are, because the file
// system is read-only and not because of anybody's permissions. A kernel that
// looks at permissions first, as gVisor's does, has to show a read-only mount.
func (p *probe) readOnlyRoot(context.Context) (wire.Outcome, string) {
	const file = "/usr/bin/.probe"
	_, missing := os.Lstat(p.in(file))
	switch err := p.Create(p.in(file)); {
	case err == nil:
		if errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(p.in(file))
		}
		return fail("%s could be opened for writing", file)
	case errors.Is(err, unix.EROFS):
		return pass("opening %s for writing: %v", file, unix.EROFS)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fail("there is no directory /usr/bin in this room, so the root can't be seen to be read-only")
	case errors.Is(err, unix.EACCES):
		mounts, _ := readMounts(filepath.Join(p.Proc, "self/mounts"))
		if m, ok := mountOf(mounts, filepath.Dir(file)); ok && m.has("ro") {
			return pass("opening %s for writing: %v, and %s, which it is on, is mounted ro", file, unix.EACCES, m.point)
		}
		return fail("opening %s for writing: %v, want %v, and no mount there is ro", file, unix.EACCES, unix.EROFS)
	default:
		return fail("opening %s for writing: %v, want %v", file, plain(err), unix.EROFS)
	}
}

// oneWritableDir: the work directory is a mount of its own that can be
// written, takes no set-id bits and no devices, and nothing else can be written.
func (p *probe) oneWritableDir(context.Context) (wire.Outcome, string) {
	mounts, err := readMounts(filepath.Join(p.Proc, "self/mounts"))
	if err != nil {
		return fail("reading the mounts: %v", plain(err))
	}
	work, ok := mountAt(mounts, p.WorkDir)
	if !ok {
		return fail("%s is not a mount of its own", p.WorkDir)
	}
	setID, fault := p.noSetID(work)
	if fault != "" {
		return fail("%s", fault)
	}
	devices, fault := p.noDevices(work)
	if fault != "" {
		return fail("%s", fault)
	}
	file := filepath.Join(p.in(p.WorkDir), ".probe")
	if err := p.Create(file); err != nil {
		return fail("%s can't be written: %v", p.WorkDir, plain(err))
	}
	if err := os.Remove(file); err != nil {
		return fail("%s can't be cleared: %v", p.WorkDir, plain(err))
	}
	other, excused := p.otherWritable(mounts)
	for _, dir := range p.Exchanges {
		switch open, cant := p.child.Open[dir]; {
		case p.childErr != nil:
			other = append(other, dir+" (nothing is known of a scanner's reach: "+p.childErr.Error()+")")
		case !cant:
			excused = append(excused, dir+", "+purpose(dir, "bundle and result pass")+" and which is closed to a scanner")
		case !p.child.CanClose:
			excused = append(excused, dir+", "+purpose(dir, "the sealed result passes")+" and which this kernel can't close to a scanner (no Landlock)")
		default:
			other = append(other, dir+" (to a scanner there "+open+")")
		}
	}
	if len(other) > 0 {
		return fail("these can be written too: %s", strings.Join(other, ", "))
	}
	detail := p.WorkDir + " is a writable " + work.fstype + " with " + setID + " and " + devices + ", and nothing else can be written"
	if len(excused) > 0 {
		detail += " but " + strings.Join(excused, ", ")
	}
	return pass("%s", detail)
}

// TerminationLog is where a kubelet puts a pod's termination log.
const TerminationLog = "/dev/termination-log"

// purpose says what a place is for that a scanner has no business with.
func purpose(place, what string) string {
	if place == TerminationLog {
		return "which a kubelet gives every pod"
	}
	return "through which " + what
}

// noSetID says by what no set-id bit in the work directory gives anybody
// anything, or why one could. A kubelet mounts a pod's directories without
// nosuid, whatever it is asked for; in a process that can gain no privileges,
// which all that it starts inherit, such a bit does nothing.
func (p *probe) noSetID(work mount) (wall, fault string) {
	without := p.WorkDir + " is mounted without nosuid (" + strings.Join(work.options, ",") + ")"
	switch status, err := readStatus(filepath.Join(p.Proc, "self/status")); {
	case work.has("nosuid"):
		return "nosuid", ""
	case !p.request.KubernetesEnv:
		return "", without
	case err != nil:
		return "", without + ", and reading the process's status: " + plain(err).Error()
	case status["NoNewPrivs"] != "1":
		return "", without + ", and the agent has NoNewPrivs: " + status["NoNewPrivs"] + ", want 1"
	}
	return "no_new_privs in the place of nosuid", ""
}

// noDevices says by what no device in the work directory can be used, or why
// one could. Where it can't be mounted nodev, in a kernel without or by a
// kubelet, devices must not be made by anybody: not by this process, and not by
// a scanner, whom its filter answers.
func (p *probe) noDevices(work mount) (wall, fault string) {
	if work.has("nodev") {
		return "nodev", ""
	}
	if !p.request.OwnKernel && !p.request.KubernetesEnv {
		return "", p.WorkDir + " is mounted without nodev (" + strings.Join(work.options, ",") + ")"
	}
	without := "there is no nodev, and "
	if err := p.MakeDevice(filepath.Join(p.in(p.WorkDir), ".probe-device")); !errors.Is(err, unix.EPERM) {
		return "", without + "making a device in " + p.WorkDir + " answered " + answer(err) + ", want " + answer(unix.EPERM)
	}
	switch said := p.child.Denied["mknodat"]; {
	case p.childErr != nil:
		return "", without + "nothing is known of a scanner's devices: " + p.childErr.Error()
	case said != "EPERM" && said != "ENOSYS":
		return "", without + "a scanner's mknodat answered " + said + ", want EPERM"
	}
	return "no way to make a device, which agent and scanner were refused, in the place of nodev", ""
}

func answer(err error) string {
	if err == nil {
		return "ok"
	}
	return plain(err).Error()
}

// otherWritable returns what this process can write besides the work
// directory's mount: what does harm and what doesn't.
func (p *probe) otherWritable(mounts []mount) (other, excused []string) {
	seen := map[string]bool{p.WorkDir: true}
	for _, dir := range p.Exchanges {
		seen[dir] = true
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		m := mounts[i]
		if seen[m.point] {
			continue // covered by a later mount
		}
		seen[m.point] = true
		if !m.has("rw") || !p.Writable(p.in(m.point)) {
			continue
		}
		name := m.point + " (" + m.fstype + ")"
		if p.harmless(m) {
			excused = append(excused, name)
		} else {
			other = append(other, name)
		}
	}
	devices, own := p.devices()
	return append(other, devices...), append(excused, own...)
}

// harmless reports whether a writable mount keeps nothing that another run or
// the host could find: a view of the kernel with permissions of its own,
// terminals, message queues that end with the instance, or a device that every
// program may have. /dev/shm is not among them: a second directory to write is one too
// many, and from inside it can't be told whose it is.
func (p *probe) harmless(m mount) bool {
	switch m.fstype {
	case "proc", "devpts":
		return true
	case "mqueue":
		name, err := os.Readlink(filepath.Join(p.Proc, "self/ns/ipc"))
		return err == nil && name != hostIPC
	}
	return harmlessDevice(p.in(m.point))
}

// hostIPC is the name of a machine's first ipc namespace.
const hostIPC = "ipc:[4026531839]"

// devices returns the devices directly in /dev that can be written and are not
// ones that every program may have, such as a host's kvm, fuse or uinput.
// Permissions and a read-only mount don't close a device: its driver decides.
//
// own are those of a kernel that is the sandbox's own.
func (p *probe) devices() (found, own []string) {
	entries, err := os.ReadDir(p.in("/dev"))
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		file := filepath.Join("/dev", e.Name())
		info, err := os.Stat(p.in(file))
		if err != nil || info.Mode()&fs.ModeDevice == 0 || !p.Writable(p.in(file)) || harmlessDevice(p.in(file)) {
			continue
		}
		if what := ofOwnKernel(p.in(file)); what != "" && p.request.OwnKernel {
			own = append(own, file+" ("+what+")")
		} else {
			found = append(found, file+" (device)")
		}
	}
	return found, own
}

// ofOwnKernel says which of those things a path is that gVisor's kernel shows
// in every sandbox: its own /dev/fuse, which is of no use to who can't mount,
// and a process's descriptors, of which opening one again makes no more.
func ofOwnKernel(path string) string {
	if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, "/proc/self/fd/") {
		return "a process's own descriptor"
	}
	var s unix.Stat_t
	if unix.Stat(path, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFCHR && s.Rdev == unix.Mkdev(10, 229) {
		return "of the sandbox's own kernel"
	}
	return ""
}

// harmlessDevice reports whether a path is one of the devices that every
// program may have: null, zero, full, random, urandom, or a terminal, which
// the filter keeps from being typed into.
func harmlessDevice(path string) bool {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false
	}
	major, minor := unix.Major(s.Rdev), unix.Minor(s.Rdev)
	memory := major == 1 && slices.Contains([]uint32{3, 5, 7, 8, 9}, minor)
	terminal := major == 5 && minor <= 2 || major >= 136 && major <= 143
	return memory || terminal
}

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// create opens a file for writing and makes it if it is missing. It follows
// no link and waits for nothing.
func create(path string) error {
	for {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

// makeDevice makes a character device that every program may have, and takes
// it away again.
func makeDevice(path string) error {
	const null = 1<<8 | 3
	err := unix.Mknod(path, unix.S_IFCHR|0o600, null)
	if err == nil {
		_ = os.Remove(path)
	}
	return err
}

// plain is the errno alone, without a path that the detail names already.
func plain(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
