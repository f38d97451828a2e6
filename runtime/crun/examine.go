package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// Aspect is one thing that a host has, or lacks, for this runtime.
type Aspect struct {
	// Name is what was looked at.
	Name string
	// Detail is what there is, in words.
	Detail string
	// Fault is why no run would be started, nil if this does not stand in its
	// way.
	Fault *sandbox.Error
}

// Examine looks at what every run needs of the host, one thing after the other
// whatever is missing before it, and changes nothing. Whether a cgroup can
// really be made is left to the probe.
func (r *Runtime) Examine(ctx context.Context) []Aspect {
	p, missing := r.finder.find(ctx, r.config.Program)
	found := Aspect{Name: "program", Fault: missing}
	flavour := p.flavour
	if missing == nil {
		found.Detail = fmt.Sprintf("%s, which is %s", p.path, p.version)
	} else {
		// What the cgroups have to be depends on the program, and its name is
		// all there is to go by.
		flavour = Flavour(filepath.Base(r.config.Program))
	}
	return []Aspect{found, r.examineKernel(flavour), r.examineIDs(), r.examineCgroups(flavour), r.examineState()}
}

func (r *Runtime) examineKernel(f Flavour) Aspect {
	facts, fault := r.host.facts()
	if fault == nil {
		fault = canStay(f, facts)
	}
	a := Aspect{Name: "namespaces", Detail: "this kernel has all that sandboxes are made of", Fault: fault}
	if facts.Ramdisk {
		a.Detail += "; this root is the kernel's first file system, and the program is told not to leave it by pivot_root"
	}
	return a
}

func (r *Runtime) examineIDs() Aspect {
	base := r.config.UsernsBase
	return Aspect{
		Name:   "user ids",
		Detail: fmt.Sprintf("this worker may give sandboxes the ids %d to %d", base, base+usernsSize-1),
		Fault:  r.host.mayMap(base),
	}
}

func (r *Runtime) examineCgroups(f Flavour) Aspect {
	l, fault := r.host.layout(f)
	a := Aspect{Name: "cgroups", Detail: "cgroup v2 with cpu, memory and pids", Fault: fault}
	if fault == nil && l.isV1() {
		a.Detail = "cgroup v1 with cpu, memory and pids"
	}
	return a
}

// examineState looks at the directory that a run would make.
func (r *Runtime) examineState() Aspect {
	a := Aspect{Name: "state directory", Detail: r.config.StateDir, Fault: r.checkState()}
	if _, err := os.Lstat(r.config.StateDir); errors.Is(err, fs.ErrNotExist) {
		a.Detail += ", which is not there yet and is made by the first run"
	}
	return a
}

// CheckRoom reads a scanner's room whole, as a probe does, and returns its
// pinned digest. The error is a *sandbox.Error.
func (r *Runtime) CheckRoom(ctx context.Context, scanner string) (digest string, err error) {
	if _, fault := r.rooms.find(ctx, scanner, true); fault != nil {
		fault.Runtime = Name
		return "", fault
	}
	return r.rooms.pin(scanner, filepath.Join(r.config.Rooms, scanner))
}

// Pinned says whether a digest is pinned for a scanner's room, whatever it is.
func (r *Runtime) Pinned(scanner string) bool {
	_, err := r.rooms.pin(scanner, filepath.Join(r.config.Rooms, scanner))
	return err == nil
}
