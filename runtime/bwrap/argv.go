package bwrap

import (
	"path/filepath"
	"strconv"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What a sandbox sees.
const (
	workDir  = "/work"
	pathEnv  = "/usr/local/bin:/usr/bin:/bin"
	agent    = "batlehub-sandbox"
	hostname = "sandbox"
)

// Dirs are the host's paths of one run.
type Dirs struct {
	// Room is the scanner's tree, which becomes the root.
	Room string
	// Work is the run's own directory, which becomes /work.
	Work string
}

// Argv is the command line of one run, binary included. It is a pure function:
// equal arguments give an equal command line, and nothing is looked at. There
// is no command line for a room that is not an absolute path, or that is the
// host's own root: it is nil then, and nothing can be run.
func Argv(c Config, spec sandbox.RunSpec, dirs Dirs) []string {
	if !filepath.IsAbs(dirs.Room) || filepath.Clean(dirs.Room) == "/" || !filepath.IsAbs(dirs.Work) {
		return nil
	}
	id := strconv.Itoa(UID)
	argv := []string{
		c.Binary,
		// The user namespace is asked for twice: --unshare-all goes on
		// without one where there is none to be had.
		"--unshare-all", "--unshare-user", "--disable-userns",
	}
	if spec.Network {
		argv = append(argv, "--share-net")
	}
	return append(argv,
		// The agent is pid 1 itself, so that it may end every other process
		// and so that its own end is the end of all.
		"--die-with-parent", "--new-session", "--as-pid-1",
		"--uid", id, "--gid", id, "--hostname", hostname,
		"--cap-drop", "ALL",
		"--clearenv", "--setenv", "HOME", workDir, "--setenv", "PATH", pathEnv,
		"--ro-bind", dirs.Room, "/",
		"--proc", "/proc",
		"--dev", "/dev", "--remount-ro", "/dev",
		"--bind", dirs.Work, workDir, "--chdir", workDir,
		"--", agent, "--in", "file://"+workDir+"/manifest.json", "--out", "file://"+workDir+"/out.tar",
	)
}
