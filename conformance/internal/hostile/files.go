package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"writable":     writable,
		"read-file":    readFile,
		"find":         find,
		"hold":         hold,
		"tree":         tree,
		"mounts":       mounts,
		"set-id":       setID,
		"leftovers":    leftovers,
		"marker":       marker,
		"inventory":    inventory,
		"exec-in-work": execInWork,
		"credentials":  credentials,
	})
}

// walk visits what is below root, at most depth levels and limit objects,
// without following links.
func walk(root string, depth, limit int, visit func(name string, st *unix.Stat_t)) {
	left := limit
	var down func(dir string, depth int)
	down = func(dir string, depth int) {
		f, err := os.Open(dir)
		if err != nil {
			return
		}
		names, _ := f.Readdirnames(left + 1)
		_ = f.Close()
		sort.Strings(names)
		for _, name := range names {
			if left--; left < 0 {
				return
			}
			full := filepath.Join(dir, name)
			var st unix.Stat_t
			if unix.Lstat(full, &st) != nil {
				continue
			}
			visit(full, &st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR && depth > 1 {
				down(full, depth-1)
			}
		}
	}
	down(root, depth)
}

// writable tries to make a file in every directory it can find outside the
// work directory, and takes away what it made.
func writable(r *attempt.Report, _ []string) {
	work, err := os.Getwd()
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	try := func(dir string) {
		if dir == work || strings.HasPrefix(dir, work+"/") || strings.HasPrefix(dir, "/proc/") {
			return
		}
		// /tmp may be a link into the work directory.
		if real, err := filepath.EvalSymlinks(dir); err != nil || real == work || strings.HasPrefix(real, work+"/") {
			return
		}
		name := filepath.Join(dir, ".hostile-"+strconv.Itoa(os.Getpid()))
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err == nil {
			_ = unix.Close(fd)
			_ = unix.Unlink(name)
		}
		if err == nil || len(r.Calls) < 50 {
			got(r, "create in "+dir, err)
		}
	}
	for _, dir := range []string{"/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/dev", "/dev/mqueue", "/usr/bin", "/etc", "/home", "/root", "/proc", "/sys"} {
		try(dir)
	}
	walk("/", 3, 3000, func(name string, st *unix.Stat_t) {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && len(r.Detail) < 300 {
			try(name)
		}
	})
}

// readFile reads a file of the host that it was told of; the second argument
// is the beginning of its content.
func readFile(r *attempt.Report, args []string) {
	for _, prefix := range []string{"", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../..", "/.old", "/oldroot", "/newroot"} {
		b, err := os.ReadFile(prefix + args[0])
		if err == nil && !strings.HasPrefix(string(b), args[1]) {
			err = unix.ENODATA
		}
		got(r, "read "+prefix+args[0], err)
	}
}

// find looks for a file of one name around the work directory, in the usual
// shared places and through other processes, again and again until it is
// there or the time is over. A neighbour's run holds such a file meanwhile.
func find(r *attempt.Report, args []string) {
	name, wait := args[0], duration(args[1])
	for end := time.Now().Add(wait); ; {
		if where := findOnce(name); where != "" {
			r.Achieved, r.Detail = true, "found "+where
			return
		}
		if time.Now().After(end) {
			return
		}
		stay(20 * time.Millisecond)
	}
}

func findOnce(name string) string {
	roots := []string{"..", "../..", "/tmp", "/dev/shm", "/var/tmp", "/run", "/work"}
	for _, pid := range others() {
		roots = append(roots, "/proc/"+strconv.Itoa(pid)+"/cwd")
	}
	found := ""
	for _, root := range roots {
		walk(root+"/", 3, 2000, func(full string, _ *unix.Stat_t) {
			if filepath.Base(full) == name {
				found = full
			}
		})
		if found != "" {
			return found
		}
	}
	return ""
}

// hold writes a file and stays for a while, as somebody's neighbour.
func hold(r *attempt.Report, args []string) {
	if err := os.WriteFile(args[0], []byte("a neighbour's secret\n"), 0o666); err != nil {
		r.Errno = errnoName(err)
		return
	}
	r.From = bootNanos()
	stay(duration(args[1]))
	r.Achieved = true
}

// marker leaves a file behind and says whether one was there before.
func marker(r *attempt.Report, args []string) {
	dirs := []string{".", "/tmp", "/dev/shm", "/var/tmp", "/run"}
	// All are looked at before anything is left: one of them may be another's
	// place once more.
	for _, dir := range dirs {
		name := filepath.Join(dir, args[0])
		if _, err := os.Lstat(name); err == nil {
			got(r, "found "+name+" of an earlier run", nil)
		}
	}
	for _, dir := range dirs {
		if dir == "." || len(args) > 1 && args[1] == "everywhere" {
			_ = os.WriteFile(filepath.Join(dir, args[0]), []byte("x"), 0o666)
		}
	}
}

// tree lists what is below a directory, with digests.
func tree(r *attempt.Report, args []string) {
	root := "."
	if len(args) > 0 {
		root = args[0]
	}
	r.Achieved = true
	walk(root, 512, 20_000, func(name string, st *unix.Stat_t) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return
		}
		n := attempt.Node{Path: rel, Mode: st.Mode & 0o7777, Size: st.Size, Links: linksOf(st)}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			n.Type = "file"
			n.SHA256 = digest(name)
		case unix.S_IFDIR:
			n.Type, n.Size, n.Links = "dir", 0, 0
		case unix.S_IFLNK:
			n.Type = "symlink"
			n.Target, _ = os.Readlink(name)
		default:
			n.Type = "special"
		}
		r.Nodes = append(r.Nodes, n)
	})
}

func digest(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return errnoName(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return errnoName(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// mounts copies mountinfo: mount point, options, type, super options.
func mounts(r *attempt.Report, _ []string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	defer f.Close()
	r.Values = map[string][]string{}
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		left, right, ok := strings.Cut(scanner.Text(), " - ")
		a, b := strings.Fields(left), strings.Fields(right)
		if !ok || len(a) < 6 || len(b) < 3 {
			continue
		}
		r.Values[a[4]] = []string{a[5], b[0], b[2]}
	}
}

// setID makes itself a set-id program in the writable place and asks what it
// would run as.
func setID(r *attempt.Report, _ []string) {
	program, err := os.ReadFile(self())
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	if err := os.WriteFile("set-id", program, 0o755); err != nil {
		r.Errno = errnoName(err)
		return
	}
	got(r, "chown to root", unix.Chown("set-id", 0, 0))
	_ = unix.Chmod("set-id", 0o6755)
	if os.Geteuid() != 0 {
		if out, err := runSelf("./set-id", "become-root"); err == nil && bytes.Contains(out, []byte("effective uid 0")) {
			got(r, "ran as uid 0", nil)
		}
	}
	_ = os.Remove("set-id")
}

// leftovers says which of the agent's own files a scanner still finds, in the
// work directory and where bundles are handed in.
func leftovers(r *attempt.Report, args []string) {
	for _, place := range places(args) {
		for _, name := range []string{"manifest.json", "in", "out.tar"} {
			_, err := os.Lstat(place + name)
			if name == "in" && err == nil {
				entries, _ := os.ReadDir(place + name)
				if len(entries) == 0 {
					err = unix.ENOENT
				}
			}
			if place != "" && name == "out.tar" && err == nil {
				// The agent keeps the place open; nothing may be in it to be read.
				if b, rerr := os.ReadFile(place + name); rerr != nil || len(b) == 0 {
					err = unix.ENODATA
				}
			}
			got(r, "found "+place+name, err)
		}
	}
}

// inventory lists every program in the room.
func inventory(r *attempt.Report, _ []string) {
	r.Values = map[string][]string{}
	seen := map[string]bool{}
	for _, root := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/sbin", "/usr/sbin", "/opt", "/lib", "/lib64", "/usr/lib"} {
		if real, err := filepath.EvalSymlinks(root); err != nil || seen[real] {
			continue
		} else {
			seen[real] = true
		}
		walk(root+"/", 3, 3000, func(name string, st *unix.Stat_t) {
			if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
				r.Values["programs"] = append(r.Values["programs"], name)
			}
			if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				r.Values["set-id"] = append(r.Values["set-id"], name)
			}
		})
	}
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		r.Values["root"] = append(r.Values["root"], e.Name())
	}
}

// execInWork runs a program that it wrote itself: possible, and no wall; what
// it runs is behind the same walls.
func execInWork(r *attempt.Report, _ []string) {
	program, err := os.ReadFile(self())
	if err == nil {
		err = os.WriteFile("copy", program, 0o755)
	}
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	out, err := runSelf("./copy", "unshare-user")
	r.Errno, r.Detail = errnoName(err), string(out)
	inner, perr := attempt.Parse(out)
	r.Achieved = perr == nil && inner.Achieved
	r.Calls = inner.Calls
	_ = os.Remove("copy")
}

// credentials looks where credentials usually lie.
func credentials(r *attempt.Report, _ []string) {
	for _, name := range []string{
		"/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/secrets", "/root/.ssh", "/root/.aws", "/root/.docker/config.json",
		"/root/.netrc", "/etc/shadow", "/etc/ssh", "/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
		"/run/containerd/containerd.sock", "/etc/machine-id", "/boot", "/root/.bash_history",
	} {
		_, err := os.Lstat(name)
		if err == nil {
			err = unix.Access(name, unix.R_OK)
		}
		got(r, name, err)
	}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}
