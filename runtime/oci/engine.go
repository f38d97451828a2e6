package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Version is a release of an engine.
type Version struct{ Major, Minor int }

// MinVersions are the first releases with every flag that a run needs.
var MinVersions = map[string]Version{Podman: {4, 3}, Docker: {20, 10}}

// String is the version as an engine prints it.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

var versionPattern = regexp.MustCompile(`(?:^|\s)(\d{1,6})\.(\d{1,6})\b`)

// ParseVersion finds the first version in what an engine printed.
func ParseVersion(s string) (Version, bool) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return Version{}, false
	}
	var v Version
	v.Major, _ = strconv.Atoi(m[1])
	v.Minor, _ = strconv.Atoi(m[2])
	return v, true
}

// host is what is known of an engine that was found.
type host struct {
	path    string
	version Version
	// rootless: the engine runs without root, in a user namespace.
	rootless bool
	// remap is what docker's user namespace adds to a uid; 0 without one.
	remap int
	// unlimited: no container can be given a limit.
	unlimited bool
}

// engine is the engine of one runtime. What was found is remembered as long as
// the program stays what it was.
type engine struct {
	config Config
	env    []string

	mu    sync.Mutex
	state string
	host  *host
}

// find returns an engine that answers and is new enough.
func (e *engine) find(ctx context.Context) (*host, *sandbox.Error) {
	path, state, err := locate(e.config.Binary)
	if err != nil {
		return nil, e.missing(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.host != nil && e.state == state {
		return e.host, nil
	}
	h := &host{path: path}
	if fault := e.ask(ctx, h); fault != nil {
		return nil, fault
	}
	if least := MinVersions[e.config.Engine]; h.version.Less(least) {
		return nil, e.tooOld(path, h.version)
	}
	e.state, e.host = state, h
	return h, nil
}

// forget has the engine asked anew: it may have been restarted as another.
func (e *engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.host = nil
}

// locate is the absolute path of a program, and what changes when it is
// replaced.
func locate(binary string) (path, state string, err error) {
	if path, err = exec.LookPath(binary); err != nil {
		return "", "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	return path, fmt.Sprint(path, info.ModTime().UnixNano(), info.Size()), nil
}

// ask fills in what the engine says about itself.
func (e *engine) ask(ctx context.Context, h *host) *sandbox.Error {
	if e.config.Engine == Docker {
		return e.askDocker(ctx, h)
	}
	exit, fault := e.say(ctx, h.path, "--version")
	if fault != nil {
		return fault
	}
	h.version, _ = ParseVersion(exit.Stdout)
	h.rootless = os.Geteuid() != 0
	h.unlimited = h.rootless && !unifiedCgroups()
	return nil
}

// dockerInfo is what is read of `docker info`.
type dockerInfo struct {
	ServerVersion   string
	ServerErrors    []string
	SecurityOptions []string
	DockerRootDir   string
	MemoryLimit     bool
}

func (e *engine) askDocker(ctx context.Context, h *host) *sandbox.Error {
	exit, fault := e.say(ctx, h.path, "info", "--format", "{{json .}}")
	if fault != nil {
		return fault
	}
	var info dockerInfo
	if err := json.Unmarshal([]byte(exit.Stdout), &info); err != nil {
		return &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoEngine, Detail: "docker info makes no sense", Err: err}
	}
	if len(info.ServerErrors) > 0 || info.ServerVersion == "" {
		return e.unreachable(strings.Join(info.ServerErrors, "; "))
	}
	h.version, _ = ParseVersion(info.ServerVersion)
	h.unlimited = !info.MemoryLimit
	for _, option := range info.SecurityOptions {
		switch name, _, _ := strings.Cut(option, ","); name {
		case "name=rootless":
			h.rootless = true
		case "name=userns":
			h.remap = remapOf(info.DockerRootDir)
		}
	}
	return nil
}

// remapOf is the first uid of a daemon's user namespace, which the name of its
// root directory ends in ("/var/lib/docker/100000.100000").
func remapOf(root string) int {
	uid, _, _ := strings.Cut(filepath.Base(root), ".")
	n, _ := strconv.Atoi(uid)
	return n
}

// say is one short call before there is a run.
func (e *engine) say(ctx context.Context, path string, args ...string) (process.Exit, *sandbox.Error) {
	exit, err := e.call(ctx, path, args...)
	switch {
	case ctx.Err() != nil:
		return exit, &sandbox.Error{Kind: sandbox.Cancelled, Err: context.Cause(ctx)}
	case err != nil:
		return exit, e.missing(err)
	case exit.Status != 0:
		fault := e.unreachable("")
		fault.Stderr = tidy(exit.Stderr)
		return exit, fault
	}
	return exit, nil
}

// unifiedCgroups says whether this host has cgroup v2 alone.
func unifiedCgroups() bool {
	var st unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

func (e *engine) missing(err error) *sandbox.Error {
	fault := &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeNoEngine,
		Detail: fmt.Sprintf("%s is not installed: there is no program %q", e.config.Engine, e.config.Binary),
		Hint: fmt.Sprintf("install %s %s or later, or set [worker.sandbox.oci] engine and binary",
			e.config.Engine, MinVersions[e.config.Engine]),
	}
	if !errors.Is(err, exec.ErrNotFound) {
		fault.Detail = fmt.Sprintf("%s can't be run from %q", e.config.Engine, e.config.Binary)
		fault.Err = err
	}
	return fault
}

// unreachable is an engine that does not answer.
func (e *engine) unreachable(detail string) *sandbox.Error {
	fault := &sandbox.Error{
		Kind: sandbox.Crashed, Code: sandbox.CodeNoEngine,
		Detail: "the engine does not answer", Hint: "look that podman works for this worker's user: podman info",
	}
	if e.config.Engine == Docker {
		fault.Hint = "start the docker daemon, or set DOCKER_HOST for the worker"
	}
	if detail != "" {
		fault.Detail += ": " + detail
	}
	return fault
}

func (e *engine) tooOld(path string, v Version) *sandbox.Error {
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeEngineOld,
		Detail: fmt.Sprintf("%s is %s %s, which lacks flags that a run needs", path, e.config.Engine, v),
		Hint:   fmt.Sprintf("install %s %s or later", e.config.Engine, MinVersions[e.config.Engine]),
	}
}
