package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/agent/internal/launch/stage"
)

// What can be wrong with the program that is to be started.
var (
	ErrNotFound      = errors.New("the program does not exist")
	ErrNotExecutable = errors.New("the program can't be executed")
)

// lookUp finds the file to execute as a shell would: a name with a slash is a
// path, relative to dir, and any other is looked for on path.
func lookUp(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	seen := ErrNotFound
	for part := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(part) {
			// An empty or relative element would be the work directory, which
			// is the artifact's.
			continue
		}
		file := filepath.Join(part, name)
		info, err := os.Stat(file)
		switch {
		case err != nil && !errors.Is(err, fs.ErrPermission):
		case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return file, nil
		default:
			seen = ErrNotExecutable
		}
	}
	return "", fmt.Errorf("looking for %.253q on %s: %w", name, path, seen)
}

// explain turns a failed step into an error. What execve says is ambiguous, so
// the file is looked at.
func explain(r *stage.Failure, program, dir string) error {
	if r.Step != stage.StepExec {
		return r
	}
	file := program
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	info, err := os.Stat(file)
	switch {
	case r.Errno == unix.ENOENT && err == nil:
		return fmt.Errorf("executing %.253q: its interpreter does not exist: %w", program, ErrNotExecutable)
	case r.Errno == unix.ENOENT, r.Errno == unix.ENOTDIR, r.Errno == unix.ELOOP, r.Errno == unix.ENAMETOOLONG:
		return fmt.Errorf("executing %.253q: %w", program, ErrNotFound)
	case r.Errno == unix.EACCES && err == nil && info.IsDir():
		return fmt.Errorf("executing %.253q: it is a directory: %w", program, ErrNotExecutable)
	case r.Errno == unix.EACCES:
		return fmt.Errorf("executing %.253q: no permission to: %w", program, ErrNotExecutable)
	case r.Errno == unix.ENOEXEC:
		return fmt.Errorf("executing %.253q: not a program of this machine, and no interpreter is named: %w", program, ErrNotExecutable)
	case r.Errno == unix.E2BIG:
		return fmt.Errorf("executing %.253q: %w", program, r.Errno)
	}
	return fmt.Errorf("executing %.253q: %w", program, r.Errno)
}
