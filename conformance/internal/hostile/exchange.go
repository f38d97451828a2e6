package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{"exchange": exchange, "disk-fill": diskFill})
}

// exchange tries everything that could be of use in the directory through
// which bundle and result pass.
func exchange(r *attempt.Report, args []string) {
	landlocked(r)
	dir := args[0]
	_, err := os.ReadDir(dir)
	got(r, "list "+dir, err)
	for _, name := range []string{"manifest.json", "out.tar", "in/artifact", "in/0"} {
		full := filepath.Join(dir, name)
		for what, flags := range map[string]int{"read ": unix.O_RDONLY, "write ": unix.O_WRONLY, "create ": unix.O_WRONLY | unix.O_CREAT} {
			fd, err := unix.Open(full, flags|unix.O_CLOEXEC, 0o600)
			if err == nil {
				_ = unix.Close(fd)
			}
			got(r, what+full, err)
		}
	}
	got(r, "remove out.tar", unix.Unlink(filepath.Join(dir, "out.tar")))
	got(r, "make a directory", unix.Mkdir(filepath.Join(dir, "made"), 0o700))
	got(r, "make a link", unix.Symlink("/", filepath.Join(dir, "link")))
	got(r, "make a FIFO", unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	if err := os.WriteFile("carried", []byte("x"), 0o600); err == nil {
		got(r, "carry a file there", unix.Rename("carried", filepath.Join(dir, "carried")))
		got(r, "link a file there", unix.Link("carried", filepath.Join(dir, "linked")))
		_ = os.Remove("carried")
	}
}

// diskFill fills the work directory with files until it is refused or its own
// bound comes, and says how much went in.
func diskFill(r *attempt.Report, args []string) {
	limit := atoi(args[0])
	signalIgnore(unix.SIGXFSZ)
	block := fill(1<<20, 'x')
	written := 0
	for i := 0; written < limit && r.Errno == ""; i++ {
		f, err := os.OpenFile(fmt.Sprintf("fill-%d", i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		for n := 0; err == nil && n < 8 && written < limit; n++ {
			if _, err = f.Write(block); err == nil {
				written++
			}
		}
		r.Errno = errnoName(err)
		_ = f.Close()
	}
	r.Values = map[string][]string{"MiB": {itoa(written)}}
	r.Achieved, r.Detail = written >= limit, fmt.Sprintf("wrote %d MiB", written)
}
