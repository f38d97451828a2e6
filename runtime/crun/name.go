package crun

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// nameOf is the container's name of a run directory: whose run it is, less the
// worker. Where that makes too long a path of runsc's socket, it is what no two
// runs have in common.
func (r *Runtime) nameOf(f Flavour, dir string) (string, bool) {
	name, ok := nameOf(dir)
	if ok && f == Runsc && len(r.socketOf(name)) > maxSocketPath {
		parts := strings.Split(name, "-")
		name = shortPrefix + parts[len(parts)-1]
	}
	return name, ok
}

// namesOf are the names that the container of a run directory can have: this
// runtime's, and that of one which had more room for it.
func (r *Runtime) namesOf(f Flavour, dir string) []string {
	name, ok := r.nameOf(f, dir)
	if !ok {
		return nil
	}
	if long, _ := nameOf(dir); long != name {
		return []string{name, long}
	}
	return []string{name}
}

func nameOf(dir string) (string, bool) {
	parts := strings.Split(filepath.Base(dir), "~")
	if len(parts) != 6 {
		return "", false
	}
	return strings.Join([]string{parts[0], parts[2], parts[3], parts[4], parts[5]}, "-"), true
}

const (
	shortPrefix = "batlehub-sbx-"
	// maxSocketPath is how long the path of a Unix socket may be: sun_path
	// less its end.
	maxSocketPath = 107
)

// socketName is the name of the socket by which runsc talks with a sandbox.
func socketName(name string) string { return "runsc-" + name + ".sock" }

// socketOf is where runsc has that socket, if it fits there.
func (r *Runtime) socketOf(name string) string {
	return filepath.Join(r.rootDir(Runsc), socketName(name))
}

// otherSocketDirs are where runsc has it otherwise: where not even a short name
// fits below the state directory, it is there that it does.
var otherSocketDirs = []string{"/var/run", "/run", "/tmp"}

// otherSockets are the sockets of a sandbox that are not below the state
// directory. Its name is one that nobody else could know beforehand.
func otherSockets(name string) []string {
	var found []string
	for _, dir := range otherSocketDirs {
		path := filepath.Join(dir, socketName(name))
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
			found = append(found, path)
		}
	}
	return found
}
