package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

// ErrExists is a room that is there already, when it may not be replaced.
var ErrExists = errors.New("there is a room already")

// ErrNotRoom is something at a room's place that Build did not make. It is
// never replaced: it may be anybody's files.
var ErrNotRoom = errors.New("there is something else already, which is no room and is not replaced; move it away, or build elsewhere")

// occupant is what stands at a room's place.
type occupant int

const (
	nothing occupant = iota
	emptyDir
	aRoom
	somethingElse
)

// occupantOf tells what is at path. A link is something else, wherever it
// leads.
func occupantOf(path string) (occupant, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return somethingElse, err
	case !info.IsDir():
		return somethingElse, nil
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return somethingElse, err
	}
	defer root.Close()
	switch {
	case isEmptyDir(root, "."):
		return emptyDir, nil
	case madeByBuild(root):
		return aRoom, nil
	}
	return somethingElse, nil
}

// madeByBuild knows a room by what Build gives every one and nothing else has
// together: the agent, the empty mount points, and /tmp in the work directory.
// A root file system has none of these empty, and a directory of files has
// none at all.
func madeByBuild(root *os.Root) bool {
	for _, name := range mountPoints {
		if !isEmptyDir(root, name) {
			return false
		}
	}
	target, err := root.Readlink("tmp")
	return err == nil && target == tmpTarget && len(checkAgent(root)) == 0
}

func isEmptyDir(root *os.Root, name string) bool {
	if !isDir(root, name) {
		return false
	}
	entries, err := fs.ReadDir(root.FS(), name)
	return err == nil && len(entries) == 0
}

// mayBuild says whether a room may go to dir, before anything is done for it.
func mayBuild(dir string, replace bool) error {
	there, err := occupantOf(dir)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the room's place: %w", err)
	case there == somethingElse:
		return fmt.Errorf("%s: %w", dir, ErrNotRoom)
	case there == aRoom && !replace:
		return fmt.Errorf("%s: %w", dir, ErrExists)
	}
	return nil
}

// place gives the draft its name. An old room changes places with it, so that
// at every moment there is one of the two. What came out is looked at again
// before it is removed, and put back if it is no room: somebody may have put
// it there while this one was being built.
func place(draft, dir string, replace bool) error {
	there, err := occupantOf(dir)
	if err != nil {
		return err
	}
	if there == nothing {
		err := rename(draft, dir, unix.RENAME_NOREPLACE)
		if errors.Is(err, fs.ErrExist) {
			return mayBuild(dir, replace)
		}
		return err
	}
	if err := mayBuild(dir, replace); err != nil {
		return err
	}
	if err := rename(draft, dir, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	there, err = occupantOf(draft)
	switch {
	case err == nil && there == emptyDir:
		err = os.Remove(draft)
	case err == nil && there == aRoom && replace:
		return rmtree.Remove(draft)
	case err == nil:
		err = fmt.Errorf("%s: %w", dir, ErrNotRoom)
	}
	if err != nil {
		return errors.Join(err, rename(draft, dir, unix.RENAME_EXCHANGE))
	}
	return nil
}

func rename(from, to string, flags uint) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: filepath.Base(from), New: to, Err: err}
	}
	return nil
}
