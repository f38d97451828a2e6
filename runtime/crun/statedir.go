package crun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What to do about a state directory.
const (
	setState   = "set [worker.sandbox.crun] state_dir"
	otherState = setState + " to a directory that is not there yet, or is empty and the worker's own"
)

// checkState sees that the state directory can be used, or be made, and changes
// nothing.
func (r *Runtime) checkState() *sandbox.Error {
	dir := r.config.StateDir
	parent := filepath.Dir(dir)
	err := checkOwn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(parent); err != nil {
			return r.stateRefused(err, "make what is above it: install -d -m 0755 "+parent+"; or "+setState)
		}
		err = nil
	} else if err == nil {
		err = onlyState(dir)
	}
	real := ""
	if err == nil {
		real, err = follow(parent)
	}
	if err != nil {
		return r.stateRefused(err, otherState)
	}
	// The directory itself is made searchable by makeState.
	if err := passable(real); err != nil {
		return r.stateRefused(err, "let the root of a sandbox through, who is nobody on this host; or "+setState)
	}
	return nil
}

func (r *Runtime) stateRefused(err error, hint string) *sandbox.Error {
	e := refusedConfig("the state directory "+r.config.StateDir+" can't be used", err)
	e.Hint = hint
	return e
}

// makeState makes the directories of one flavour, where checkState saw nothing
// against it.
func (r *Runtime) makeState(f Flavour) *sandbox.Error {
	err := ownDir(r.config.StateDir, 0o711)
	if err == nil {
		err = openState(r.config.StateDir)
	}
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{
		{filepath.Join(r.config.StateDir, string(f)), 0o711},
		{r.bundlesDir(f), 0o711},
		{r.rootDir(f), 0o700},
	} {
		if err == nil {
			err = ownDir(d.path, d.mode)
		}
		if err == nil {
			// It may have been made with another umask by who was killed then.
			err = os.Chmod(d.path, d.mode)
		}
	}
	if err != nil {
		return r.stateRefused(err, otherState)
	}
	return nil
}

// openState lets everybody through the state directory. A service manager may
// have made it for its owner alone, as may a start that was killed under another
// umask. It is looked at again for that: nothing else's is ever changed.
func openState(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode().Perm()&0o001 != 0 {
		return err
	}
	if err := onlyState(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// ownDir makes a directory, or sees that the one that is there is this
// process's own: nobody else may have put it there, or may put anything in it.
// The mode of what is there stays as it is.
func ownDir(path string, mode fs.FileMode) error {
	err := os.Mkdir(path, mode)
	switch {
	case err == nil:
		return os.Chmod(path, mode) // whatever the umask says
	case errors.Is(err, fs.ErrExist):
		return checkOwn(path)
	}
	return err
}

// checkOwn sees that a directory is this process's own.
func checkOwn(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	o, err := ownerOf(path, info)
	switch {
	case err != nil:
		return err
	case int(o.uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to somebody else", path)
	case o.othersWrite():
		return fmt.Errorf("%s is writable for others", path)
	}
	return nil
}

// onlyState sees that a directory is empty or holds this runtime's state. Any
// other is somebody's, and whoever named it made a slip.
func onlyState(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	other := ""
	for _, e := range entries {
		complete, ours := partOfState(filepath.Join(dir, e.Name()))
		switch {
		case complete:
			return nil
		case !ours && e.Name() != "lost+found" && other == "":
			other = e.Name()
		}
	}
	if other != "" {
		return fmt.Errorf("%s holds %q, and nothing of this runtime's: it is something else's directory", dir, other)
	}
	return nil
}

// partOfState says whether a directory is the part of one flavour, and whether
// all of that is there.
func partOfState(dir string) (complete, ours bool) {
	if parseFlavour(Flavour(filepath.Base(dir))) != nil {
		return false, false
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	for _, e := range entries {
		if !e.IsDir() || !slices.Contains([]string{"bundles", "run"}, e.Name()) {
			return false, false
		}
	}
	return len(entries) == 2, true
}

// passable sees that everybody may search every directory from the root to
// path.
func passable(path string) error {
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		case info.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("%s is not searchable for everybody (chmod o+x %s)", dir, dir)
		case dir == filepath.Dir(dir):
			return nil
		}
	}
}
