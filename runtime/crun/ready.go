package crun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// engine is what a run is started with, all of it looked at and found good.
type engine struct {
	program
	room   string
	facts  Facts
	layout layout
	own    *specs.LinuxSeccomp
}

// ready looks at everything that a run of a scanner needs, in one order, and
// refuses with the first thing that is missing. thorough forgets what was
// remembered: only what was good ever is.
func (r *Runtime) ready(ctx context.Context, scanner string, thorough bool) (engine, *sandbox.Error) {
	room, fault := r.rooms.find(ctx, scanner, thorough)
	if fault != nil {
		return engine{}, fault
	}
	e := engine{room: room}
	// It is only looked at here: nothing is made before the program is known.
	if fault := r.checkState(); fault != nil {
		return e, fault
	}
	if e.program, fault = r.finder.find(ctx, r.config.Program); fault != nil {
		return e, fault
	}
	e.root = r.rootDir(e.flavour)
	if fault := r.makeState(e.flavour); fault != nil {
		return e, fault
	}
	if e.facts, fault = r.host.facts(); fault != nil {
		return e, fault
	}
	e.facts.Ramdisk = e.facts.Ramdisk || r.config.NoPivot
	if fault := canStay(e.flavour, e.facts); fault != nil {
		return e, fault
	}
	if fault := r.host.mayMap(r.config.UsernsBase); fault != nil {
		return e, fault
	}
	if fault := r.cgroups(ctx, &e, thorough); fault != nil {
		return e, fault
	}
	e.own, fault = r.profile(scanner, e.flavour)
	return e, fault
}

// canStay refuses a program that can't do without pivot_root where that fails.
func canStay(f Flavour, host Facts) *sandbox.Error {
	if f != Runsc || !host.Ramdisk {
		return nil
	}
	return noEngine("runsc leaves its root by pivot_root, which fails on this host's, the kernel's first file system (initramfs)", nil,
		"set program to crun or runc, or start the worker from a file system that is mounted on it")
}

// cgroups finds the hierarchies and tries them, once between two probes.
func (r *Runtime) cgroups(ctx context.Context, e *engine, thorough bool) *sandbox.Error {
	var fault *sandbox.Error
	if e.layout, fault = r.host.layout(e.flavour); fault != nil {
		return fault
	}
	e.facts.V1 = e.layout.isV1()
	r.mu.Lock()
	swap, tried := r.swap[e.flavour]
	r.mu.Unlock()
	if !tried || thorough {
		var err error
		name := tryPrefix + strings.ToLower(rand.Text()[:16])
		if swap, err = e.layout.tryChild(ctx, r.config.CgroupParent, name); err != nil {
			return noEngine(fmt.Sprintf("no cgroup with limits for cpu, memory and pids can be made below /%s", r.config.CgroupParent), err,
				"run the worker as root, and delegate these controllers to it")
		}
		r.mu.Lock()
		r.swap[e.flavour] = swap
		r.mu.Unlock()
	}
	e.facts.Swap = swap
	return nil
}

// profile loads the scanner's own seccomp profile, if it has one.
func (r *Runtime) profile(scanner string, f Flavour) (*specs.LinuxSeccomp, *sandbox.Error) {
	p, ok := r.config.Profiles[scanner]
	if !ok {
		return nil, nil
	}
	if f == Runsc {
		return nil, refusedConfig(fmt.Sprintf("scanner %q has a seccomp profile of its own, which runsc can't be trusted to keep", scanner), nil)
	}
	b, err := bundle.ReadFile(p.Path, seccomp.OwnCap)
	var own *specs.LinuxSeccomp
	if err == nil {
		own, err = seccomp.Own(b, p.SHA256, runtime.GOARCH, afterFilter[f])
	}
	if err != nil {
		e := refusedConfig(fmt.Sprintf("the seccomp profile %s of scanner %q can't be used", p.Path, scanner), err)
		if errors.Is(err, seccomp.ErrPin) {
			e.Hint = "pin its digest with sha256, after a look at what it says"
		}
		return nil, e
	}
	return own, nil
}
