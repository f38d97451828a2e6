package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
)

func (o Options) crun() (Built, error) {
	r, err := o.newCrun()
	if err != nil {
		return Built{}, err
	}
	c := o.Sandbox.Crun
	rooms, err := absolute(c.Rooms)
	if err != nil {
		return Built{}, errors.Join(err, r.Close())
	}
	return Built{
		Runtime: pinned{r, rooms}, Work: "/work", Rooms: rooms, Walls: true,
		record:    recorder{r},
		placement: func([]string) string { return fmt.Sprintf("program %s, rooms in %s", c.Program, rooms) },
	}, nil
}

func (o Options) newCrun() (*crun.Runtime, error) {
	c := o.Sandbox.Crun
	rooms, err := absolute(c.Rooms)
	if err != nil {
		return nil, err
	}
	profiles := map[string]crun.Profile{}
	for name, s := range o.Scanners {
		if s.SeccompProfile != "" {
			profiles[name] = crun.Profile{Path: s.SeccompProfile, SHA256: s.SeccompSHA256}
		}
	}
	return crun.New(crun.Config{
		Program: c.Program, StateDir: c.StateDir, Rooms: rooms, Digests: c.Digests, User: c.User, UsernsBase: c.UsernsBase,
		CgroupParent: c.CgroupParent, CPUMilli: c.CPUMilli, Profiles: profiles, NoPivot: c.NoPivot,
		Canaries: o.Canaries, Worker: o.Worker,
	})
}

// pinned is a runtime whose probe says how a room that is not there is built,
// and one without a digest pinned.
type pinned struct {
	*crun.Runtime
	rooms string
}

// Probe implements sandbox.Runtime.
func (p pinned) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report, err := p.Runtime.Probe(ctx, room)
	if _, failed := report.Failed(); failed {
		info, statErr := os.Stat(filepath.Join(p.rooms, room.Scanner))
		switch {
		case statErr != nil || !info.IsDir():
			report.Hint = "build it: " + TreeCommand(p.rooms, room.Scanner, room.Commands) + " --pin"
		case !p.Pinned(room.Scanner):
			report.Hint = "pin it, after a look at what is in it: " + PinCommand(p.rooms, room.Scanner)
		}
	}
	return report, err
}

// PinCommand is the command that pins the digest of a room that stands.
func PinCommand(rooms, scanner string) string {
	return fmt.Sprintf("sandboxctl tree %s --rooms %s --pin", scanner, rooms)
}

// WritePin writes the digest of the room at dir beside it, where runtime crun
// looks for it, and returns the digest and the file's path.
func WritePin(ctx context.Context, dir string) (digest, file string, err error) {
	dir, err = absolute(dir)
	if err == nil {
		digest, err = crun.WritePin(ctx, dir)
	}
	if err != nil {
		return "", "", fmt.Errorf("pinning the room: %w", err)
	}
	return digest, dir + crun.PinSuffix, nil
}

// directHost is what a doctor has to know about runtime crun.
func directHost(o Options) doctor.Direct {
	r, err := o.newCrun()
	if err != nil {
		return doctor.Direct{Problem: err.Error()}
	}
	return doctor.Direct{
		Examine: func(ctx context.Context) []doctor.Check {
			var checks []doctor.Check
			for _, a := range r.Examine(ctx) {
				checks = append(checks, checkOf(a.Name, a.Detail, a.Fault))
			}
			return checks
		},
		CheckRoom: func(ctx context.Context, room doctor.Room) doctor.Check {
			dir := filepath.Join(o.Sandbox.Crun.Rooms, room.Scanner)
			digest, err := r.CheckRoom(ctx, room.Scanner)
			fault, _ := errors.AsType[*sandbox.Error](err)
			c := checkOf("room "+room.Scanner, dir+", "+digest, fault)
			if fault == nil {
				return c
			}
			c.Fixes = []string{TreeCommand(o.Sandbox.Crun.Rooms, room.Scanner, []string{room.Command}) + " --pin"}
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				c.Fixes = []string{c.Fixes[0] + " --force", "or, if you know that it is what it is to be: " + PinCommand(o.Sandbox.Crun.Rooms, room.Scanner)}
			}
			return c
		},
	}
}

func checkOf(name, detail string, fault *sandbox.Error) doctor.Check {
	if fault == nil {
		return doctor.Check{Name: name, Outcome: doctor.Pass, Detail: detail}
	}
	said := strings.TrimPrefix(fault.Detail, ": ")
	if fault.Err != nil {
		said = strings.TrimPrefix(said+": "+fault.Err.Error(), ": ")
	}
	c := doctor.Check{Name: name, Outcome: doctor.Fail, Detail: said}
	if fault.Hint != "" {
		c.Fixes = []string{fault.Hint}
	}
	return c
}
