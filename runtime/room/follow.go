package room

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// errLinks is a chain of links that is too long to be meant.
var errLinks = errors.New("too many levels of symbolic links")

// follow resolves every link in name as a process would whose root directory is
// root: an absolute target begins there, and ".." ends there. What does not
// exist is taken as it is written. os.Root itself refuses absolute targets,
// which are ordinary in images.
func follow(root *os.Root, name string) (string, error) {
	done := "."
	rest := name
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				done = next
				continue
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", &fs.PathError{Op: "follow", Path: name, Err: errLinks}
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = target + "/" + rest
	}
	return done, nil
}
