package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Version is a release of bubblewrap.
type Version struct{ Major, Minor, Patch int }

// MinVersion is the first release with --disable-userns, without which a
// sandbox could make user namespaces of its own and gain capabilities in them.
var MinVersion = Version{0, 8, 0}

// String is the version as bwrap prints it.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	if v.Major != w.Major {
		return v.Major < w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor < w.Minor
	}
	return v.Patch < w.Patch
}

var versionPattern = regexp.MustCompile(`^bubblewrap (\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?`)

// ParseVersion reads what bwrap --version prints.
func ParseVersion(s string) (Version, bool) {
	m := versionPattern.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Version{}, false
	}
	var v Version
	for i, part := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*part, _ = strconv.Atoi(m[i+1])
	}
	return v, true
}

// FindBinary is the absolute path of bwrap, by a path or a name on PATH.
func FindBinary(binary string) (string, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ReadVersion asks the program at path for its version. A program that says
// nothing of the kind has none: a run will tell what it is.
func ReadVersion(ctx context.Context, path string) (Version, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	exit, err := process.Run(ctx, process.Spec{Path: path, Argv: []string{path, "--version"}, Head: 256})
	if err != nil || exit.Status != 0 {
		return Version{}, false
	}
	return ParseVersion(exit.Stdout)
}

// engine is the bwrap of one runtime. What was found is remembered as long as
// the file stays what it was.
type engine struct {
	mu    sync.Mutex
	path  string
	state string
}

// find returns the path of a bwrap that is new enough.
func (e *engine) find(ctx context.Context, binary string) (string, *sandbox.Error) {
	path, err := FindBinary(binary)
	if err != nil {
		return "", missing(binary, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", missing(binary, err)
	}
	state := fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.path == path && e.state == state {
		return path, nil
	}
	if v, ok := ReadVersion(ctx, path); ok {
		if v.Less(MinVersion) {
			return "", tooOld(path, v.String())
		}
		e.path, e.state = path, state
	}
	return path, nil
}

func missing(binary string, err error) *sandbox.Error {
	e := &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeNoEngine,
		Detail: fmt.Sprintf("bubblewrap is not installed: there is no program %q", binary),
		Hint:   "install bubblewrap 0.8 or later (the package is called bubblewrap), or set [worker.sandbox.bwrap] binary",
	}
	if !errors.Is(err, exec.ErrNotFound) {
		e.Detail = fmt.Sprintf("bubblewrap can't be run from %q", binary)
		e.Err = err
	}
	return e
}

func tooOld(path, version string) *sandbox.Error {
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeEngineOld,
		Detail: fmt.Sprintf("%s is bubblewrap %s, which can't keep a sandbox from making user namespaces of its own", path, version),
		Hint:   fmt.Sprintf("install bubblewrap %s or later", MinVersion),
	}
}
