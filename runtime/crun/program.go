package crun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// short bounds one short call: asking a program for its version, killing,
// deleting. It takes milliseconds; a program that hangs is given up.
const short = 10 * time.Second

// attempts is how often a short call is made whose end a reaper took.
const attempts = 3

// program is the OCI runtime program of one flavour, and the directory that it
// keeps its state in.
type program struct {
	path    string
	flavour Flavour
	version string
	root    string
	reaper  process.Reaper
}

// call makes a short call that may be repeated.
func (p program) call(ctx context.Context, args ...string) (process.Exit, error) {
	return callProgram(ctx, p.reaper, p.path, append(global(p.flavour, p.root), args...))
}

func callProgram(ctx context.Context, reaper process.Reaper, path string, args []string) (exit process.Exit, err error) {
	for range attempts {
		exit, err = callOnce(ctx, process.Spec{
			Path: path, Argv: append([]string{path}, args...), Env: environment(), Head: 64 << 10, Reaper: reaper,
		})
		if !process.IsReaped(err) {
			break
		}
	}
	return exit, err
}

func callOnce(ctx context.Context, spec process.Spec) (process.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	exit, err := process.Run(ctx, spec)
	if err == nil && exit.Killed {
		err = fmt.Errorf("it did not end within %s", short)
	}
	return exit, err
}

// environment is all that a program gets: crun looks for no program, and
// runsc starts itself again by its own path.
func environment() []string { return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"} }

// finder finds the program of one runtime. What was found is remembered as
// long as the file stays what it was; a failure never is.
type finder struct {
	mu      sync.Mutex
	found   program
	state   string
	reaper  process.Reaper
	flavour Flavour
}

// find returns the program, with its flavour and version, but without a root.
func (f *finder) find(ctx context.Context, name string) (program, *sandbox.Error) {
	path, err := lookPath(name)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err != nil {
		return program{}, missing(name, err)
	}
	// Another may have been put there since it was asked.
	if _, err := follow(path); err != nil {
		return program{}, unsafeProgram(name, err)
	}
	state := fmt.Sprint(path, info.ModTime().UnixNano(), info.Size())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == state {
		return f.found, nil
	}
	p, fault := f.ask(ctx, path)
	if fault == nil {
		f.found, f.state = p, state
	}
	return p, fault
}

// lookPath is the absolute path of a program, by a path or a name on PATH.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ask asks the program for its version, which also tells its flavour.
func (f *finder) ask(ctx context.Context, path string) (program, *sandbox.Error) {
	const hint = "set [worker.sandbox.crun] program to crun, runc or runsc"
	exit, err := callProgram(ctx, f.reaper, path, []string{"--version"})
	switch {
	case ctx.Err() != nil:
		return program{}, &sandbox.Error{Kind: sandbox.Cancelled, Err: context.Cause(ctx)}
	case err != nil:
		return program{}, noEngine(fmt.Sprintf("%s --version", path), err, hint)
	case exit.Status != 0:
		e := noEngine(fmt.Sprintf("%s --version exited %d", path, exit.Status), nil, hint)
		e.Stderr = exit.Stderr
		return program{}, e
	}
	line, _, _ := strings.Cut(exit.Stdout, "\n")
	p := program{path: path, version: strings.TrimSpace(line), flavour: f.flavour, reaper: f.reaper}
	if p.flavour == "" {
		var known bool
		if p.flavour, known = FlavourOf(p.version); !known {
			return program{}, &sandbox.Error{
				Kind: sandbox.Refused, Code: sandbox.CodeConfig,
				Detail: fmt.Sprintf("%s is none of crun, runc and runsc: it calls itself %.64q", path, p.version), Hint: hint,
			}
		}
	}
	return p, nil
}

// unsafeProgram is the refusal of a program that others may change, or put
// another in the place of. Its directory may be a distribution's, which has
// reasons of its own for that.
func unsafeProgram(name string, err error) *sandbox.Error {
	e := refusedConfig(fmt.Sprintf("the program %q, which this process runs, is not safe from others", name), err)
	e.Hint = "put that right, or set [worker.sandbox.crun] program to a copy in a directory that only root may write; " + docs
	return e
}

func missing(name string, err error) *sandbox.Error {
	e := noEngine(fmt.Sprintf("there is no program %q", name), nil,
		"install crun or runc, or set [worker.sandbox.crun] program")
	if !errors.Is(err, exec.ErrNotFound) {
		e.Detail, e.Err = fmt.Sprintf("%q can't be run", name), err
	}
	return e
}
