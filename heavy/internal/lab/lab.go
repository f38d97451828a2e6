// Package lab builds what the heavy tests and benchmarks run: the agent, the
// inmate, a room with both, and the runtimes over it.
package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Scanner is the name of the lab's room.
const Scanner = "inmate"

// Lab is a directory with everything built.
type Lab struct {
	// Agent and Inmate are the built programs.
	Agent, Inmate string
	// Rooms holds the one room.
	Rooms string
	// RunDir is where runs get their directories.
	RunDir string
}

// New builds the lab below dir, which must be searchable by other users.
func New(ctx context.Context, dir string) (*Lab, error) {
	l := &Lab{
		Agent:  filepath.Join(dir, "batlehub-sandbox"),
		Inmate: filepath.Join(dir, "inmate"),
		Rooms:  filepath.Join(dir, "rooms"),
		RunDir: filepath.Join(dir, "runs"),
	}
	for output, pkg := range map[string]string{
		l.Agent:  "github.com/batleforc/batlehub-sandbox/agent/cmd/batlehub-sandbox",
		l.Inmate: "github.com/batleforc/batlehub-sandbox/heavy/cmd/inmate",
	} {
		if err := Build(ctx, output, pkg); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{l.Rooms, l.RunDir} {
		if err := os.MkdirAll(d, 0o711); err != nil {
			return nil, err
		}
	}
	_, err := room.Build(ctx, filepath.Join(l.Rooms, Scanner), room.Options{
		Agent:    l.Agent,
		From:     []room.Source{{Path: l.Inmate}},
		Commands: []string{"inmate"},
		Replace:  true,
	})
	if err != nil {
		return nil, fmt.Errorf("building the lab's room: %w", err)
	}
	return l, nil
}

// Build builds one program of the workspace as it ships: static and stripped.
func Build(ctx context.Context, output, pkg string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", output, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return nil
}

// Bwrap returns the bwrap runtime over the lab's room.
func (l *Lab) Bwrap() (sandbox.Runtime, error) {
	return bwrap.New(bwrap.Config{Binary: bwrap.DefaultBinary, Rooms: l.Rooms, RunDir: l.RunDir, Worker: "heavy"})
}

// None returns the runtime without walls.
func (l *Lab) None() (sandbox.Runtime, error) {
	return none.New(none.Config{Unsafe: true, RunDir: l.RunDir})
}

// Spec is a run of argv over the archive at path, unpacked at "artifact".
// Without a path there is no input.
func Spec(job, path string, nested []wire.Nested, argv ...string) (sandbox.RunSpec, error) {
	spec := sandbox.RunSpec{
		Bundle:       sandbox.Bundle{Policy: wire.DefaultExtractPolicy()},
		Argv:         argv,
		StartTimeout: time.Minute,
		Timeout:      5 * time.Minute,
		Limits:       wire.DefaultLimits(),
		Label:        wire.Label{Worker: "heavy", Job: job, Scanner: Scanner, Attempt: 1},
	}
	if path == "" {
		return spec, nil
	}
	artifact, err := bundle.FileArtifact(path)
	if err != nil {
		return spec, err
	}
	spec.Bundle.Artifact = artifact
	spec.Bundle.Entries = []wire.Entry{{
		Path: wire.MustRelPath("artifact"), Kind: wire.Archive, URL: wire.ArtifactURL, Size: artifact.Size(), Nested: nested,
	}}
	return spec, nil
}
