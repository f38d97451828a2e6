package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// fifth is the goal of a run over runc, of the faster engine's time.
const fifth = 0.2

// runcRun compares a whole run over runc, with the profile of every scanner,
// with the faster of the two engines' plain command lines over the same room.
func runcRun(ctx context.Context, b *bench) (result, error) {
	r, err := programRun(ctx, b, "runc", nil)
	r.Goal, r.Met = "at most a fifth of the faster engine's", r.Value <= fifth
	return r, err
}

// runcRecordedRun is runcRun with the scanner's own profile, as `sandboxctl
// record` makes it.
func runcRecordedRun(ctx context.Context, b *bench) (result, error) {
	r, err := programRun(ctx, b, "runc", recordProfile)
	r.A.Label = "a run with its own profile"
	r.Goal, r.Met = "at most a fifth of the faster engine's", r.Value <= fifth
	return r, err
}

// runscRun is runcRun over gVisor's program, whose sandboxes have a kernel of
// their own.
func runscRun(ctx context.Context, b *bench) (result, error) {
	r, err := programRun(ctx, b, "runsc", nil)
	r.Goal, r.Met = "reported only", true
	return r, err
}

// profiler makes the lab's scanner a profile of its own in dir.
type profiler func(ctx context.Context, conf crun.Config, spec sandbox.RunSpec, dir string) (crun.Profile, error)

// programRun compares a whole run over an OCI program with the faster of the
// engines that are here.
func programRun(ctx context.Context, b *bench, program string, profile profiler) (r result, err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return result{}, fmt.Errorf("%w: no %s on this host", errMissing, program)
	}
	spec, err := benchSpec(b)
	if err != nil {
		return result{}, err
	}
	conf, err := overProgram(ctx, b, path)
	if err != nil {
		return result{}, err
	}
	if profile != nil {
		own, err := profile(ctx, conf, spec, b.dir)
		if err != nil {
			return result{}, err
		}
		conf.Profiles = map[string]crun.Profile{lab.Scanner: own}
	}
	rt, err := crun.New(conf)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	return besideEngines(ctx, b, runOf(ctx, rt, spec), "crun.Runtime.Run over a package of two files, "+program)
}

// besideEngines compares a run with plain command lines over the same room, and
// returns the comparison with the faster of the engines that are here.
func besideEngines(ctx context.Context, b *bench, run timed, how string) (result, error) {
	var best result
	for _, engine := range []string{oci.Podman, oci.Docker} {
		image, remove, err := labImage(ctx, b, engine)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return result{}, err
		}
		argv := plainRun(engine, image)
		ours, plain, err := pair(b.rounds, run, func() (time.Duration, error) { return command(ctx, argv) })
		remove()
		if err != nil {
			return result{}, err
		}
		value := by(ours, plain, ratio)
		if best.Unit == "" || value > best.Value {
			best = result{
				A:     sideOf("a run", how, ours),
				B:     sideOf("plain "+engine, strings.Join(argv, " "), plain),
				Value: value, Unit: "of its time",
			}
		}
	}
	if best.Unit == "" {
		return result{}, fmt.Errorf("%w: no engine on this host", errMissing)
	}
	return best, nil
}

// overProgram configures runtime crun over the lab's room, pinned.
func overProgram(ctx context.Context, b *bench, program string) (crun.Config, error) {
	rooms := filepath.Join(b.dir, "crun-rooms")
	if err := os.MkdirAll(rooms, 0o711); err != nil {
		return crun.Config{}, err
	}
	_, err := room.Build(ctx, filepath.Join(rooms, lab.Scanner), room.Options{
		Agent: b.lab.Agent, From: []room.Source{{Path: b.lab.Inmate}}, Commands: []string{"inmate"}, Replace: true,
	})
	if err != nil {
		return crun.Config{}, err
	}
	if _, err := crun.WritePin(ctx, filepath.Join(rooms, lab.Scanner)); err != nil {
		return crun.Config{}, err
	}
	return crun.Config{
		Program: program, Rooms: rooms, StateDir: filepath.Join(b.dir, "crun-state"), CgroupParent: "batlehub-bench", Worker: "heavy",
	}, nil
}

// recordings is how many runs are recorded: the runtime of a Go program calls
// for some things only now and then.
const recordings = 3

// recordProfile records a probe and some runs, as one does before a scanner goes
// into service.
func recordProfile(ctx context.Context, conf crun.Config, spec sandbox.RunSpec, dir string) (p crun.Profile, err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return p, fmt.Errorf("%w: no strace on this host", errMissing)
	}
	rt, err := crun.New(conf)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	probe, err := rt.RecordProbe(ctx, sandbox.Room{Scanner: lab.Scanner, Commands: spec.Argv[:1], Limits: spec.Limits}, "strace")
	if err != nil {
		return p, err
	}
	var runs []crun.Recording
	for range recordings {
		spec.Label.Attempt++
		run, err := rt.Record(ctx, spec, "strace")
		if err != nil {
			return p, err
		}
		runs = append(runs, run)
	}
	file, digest, err := probe.Profile(runs...)
	if err != nil {
		return p, err
	}
	p = crun.Profile{Path: filepath.Join(dir, lab.Scanner+".json"), SHA256: digest}
	return p, os.WriteFile(p.Path, file, 0o644)
}
