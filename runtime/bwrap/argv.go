package bwrap

import "github.com/batleforc/batlehub-sandbox/runtime/sandbox"

// Dirs are the host's paths of one run.
type Dirs struct {
	// Room is the scanner's tree, which becomes the root.
	Room string
	// Work is the run's own directory, which becomes /work.
	Work string
}

// Argv is the command line of one run, binary included. It is a pure function:
// equal arguments give an equal command line, and nothing is looked at.
func Argv(c Config, spec sandbox.RunSpec, dirs Dirs) []string {
	argv := []string{c.Binary, "--unshare-all", "--unshare-user", "--disable-userns"}
	if spec.Network {
		argv = append(argv, "--share-net")
	}
	return append(argv,
		"--die-with-parent", "--new-session", "--as-pid-1",
		"--uid", "65532", "--gid", "65532", "--hostname", "sandbox",
		"--cap-drop", "ALL",
		"--clearenv", "--setenv", "HOME", "/work", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin",
		"--ro-bind", dirs.Room, "/", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
		"--bind", dirs.Work, "/work", "--chdir", "/work",
		"--", "batlehub-sandbox", "--in", "file:///work/manifest.json", "--out", "file:///work/out.tar",
	)
}
