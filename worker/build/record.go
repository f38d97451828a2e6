package build

import (
	"context"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/crun"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// Profile is a scanner's own seccomp profile, as it was recorded.
type Profile struct {
	// File is what the profile's file holds, SHA256 the digest that pins it.
	File   []byte
	SHA256 string
	// Calls are the system calls that were seen.
	Calls []string
}

// Record makes a probe of the room and the runs, one after the other, with
// strace attached, and makes a profile of what all of them called: it holds in
// probes too. done is told of each run's answer. A
// runtime whose scanners have no profiles of their own is a *config.Error.
func (b Built) Record(ctx context.Context, strace string, room sandbox.Room, specs []sandbox.RunSpec, done func(sandbox.RunOutput)) (Profile, error) {
	if b.record.runtime == nil {
		return Profile{}, &config.Error{Message: fmt.Sprintf("scanners have no seccomp profiles of their own under runtime %q; they have under crun", b.Name())}
	}
	return b.record.profile(ctx, strace, room, specs, done)
}

// recorder makes profiles over runtime crun; its zero value over none.
type recorder struct{ runtime *crun.Runtime }

func (r recorder) profile(ctx context.Context, strace string, room sandbox.Room, specs []sandbox.RunSpec, done func(sandbox.RunOutput)) (Profile, error) {
	probe, err := r.runtime.RecordProbe(ctx, room, strace)
	if err != nil {
		return Profile{}, err
	}
	all := []crun.Recording{probe}
	for _, spec := range specs {
		recording, err := r.runtime.Record(ctx, spec, strace)
		if err != nil {
			return Profile{}, err
		}
		done(recording.Output)
		all = append(all, recording)
	}
	file, digest, err := all[0].Profile(all[1:]...)
	if err != nil {
		return Profile{}, fmt.Errorf("making a profile: %w", err)
	}
	seen := map[string]bool{}
	p := Profile{File: file, SHA256: digest}
	for _, r := range all {
		for _, call := range r.Calls {
			if !seen[call] {
				seen[call] = true
				p.Calls = append(p.Calls, call)
			}
		}
	}
	return p, nil
}
