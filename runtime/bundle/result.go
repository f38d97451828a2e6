package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// ErrNoResult is a run that left no result.
var ErrNoResult = errors.New("no result came back")

// ErrPlanted is something at the result's place that no agent puts there.
var ErrPlanted = errors.New("what stands at the result's place is not the agent's")

// Result reads the result that the run left. The work directory was a hostile
// program's own, so nothing in it is trusted: a link, a FIFO, a device, a
// second name of another file and an oversized file are refused unread, and
// what is read must carry the run's seal. The errors wrap ErrNoResult,
// ErrPlanted, wire.ErrResult or a *wire.VersionError, or are the disk's.
func (d *Dir) Result() (*wire.Result, []byte, error) {
	b, err := d.readResult()
	if err != nil {
		return nil, nil, err
	}
	return wire.DecodeResult(b, d.request.Manifest.SealKey)
}

func (d *Dir) readResult() ([]byte, error) {
	dir, err := d.work.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), resultName, flags, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoResult
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%w: a symbolic link", ErrPlanted)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%w: %w", ErrPlanted, err)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: resultName, Err: err}
	}
	f := os.NewFile(uintptr(fd), resultName)
	defer f.Close()
	return readBounded(fd, f)
}

func readBounded(fd int, f *os.File) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: resultName, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%w: not a regular file", ErrPlanted)
	case st.Nlink != 1:
		return nil, fmt.Errorf("%w: a file with %d names", ErrPlanted, st.Nlink)
	case st.Size > wire.ResultTarCap:
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrPlanted, st.Size, wire.ResultTarCap)
	}
	b := make([]byte, st.Size)
	// A file that shrinks meanwhile is an unexpected end; one that grows is
	// read to the length it had.
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, &os.PathError{Op: "read", Path: resultName, Err: err}
	}
	return b, nil
}

// Full says whether the file system of the run directory has no space or no
// files left, which is why an agent can be unable to store its result.
func (d *Dir) Full() bool {
	var st unix.Statfs_t
	if unix.Statfs(d.Work(), &st) != nil {
		return false
	}
	return st.Bavail == 0 || st.Files > 0 && st.Ffree == 0
}
