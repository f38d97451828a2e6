package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
)

// agentSize is the size of the agent as it ships.
func agentSize(_ context.Context, b *bench) (result, error) {
	info, err := os.Stat(b.agent)
	if err != nil {
		return result{}, fmt.Errorf("%w: %w; run ./task build", errMissing, err)
	}
	value := float64(info.Size()) / (1 << 20)
	return result{
		A:     mib(filepath.Base(b.agent), "stat", value),
		Value: value, Unit: "MiB", Goal: "at most 6 MiB", Met: value <= 6,
	}, nil
}

// launchStage compares the start of the agent's executable as a stage with the
// start of an empty static Go program. A run without walls pays for it, where
// a keeper stands between the worker and the scanner. A run under bwrap has no
// stage: its agent, which is pid 1, makes the scanner's process itself, and
// bwrap-run measures that.
func launchStage(ctx context.Context, b *bench) (result, error) {
	empty := filepath.Join(b.dir, "empty")
	if err := lab.Build(ctx, empty, "github.com/batleforc/batlehub-sandbox/heavy/cmd/empty"); err != nil {
		return result{}, err
	}
	stage, err := stageCommand(b.agent)
	if err != nil {
		return result{}, err
	}
	ours, theirs, err := pair(b.rounds*10,
		func() (time.Duration, error) { return stage(ctx) },
		func() (time.Duration, error) { return command(ctx, []string{empty}) })
	if err != nil {
		return result{}, err
	}
	value := by(ours, theirs, ratio)
	return result{
		A:     sideOf("keeper stage", b.agent+" under the keeper's name", ours),
		B:     sideOf("empty Go program", empty, theirs),
		Value: value, Unit: "times its start", Goal: "under 2", Met: value < 2,
	}, nil
}

// stageMarker is the argv[0] by which the agent's executable knows that it is
// a keeper (agent/internal/launch/stage).
const stageMarker = "batlehub-sandbox: keeper"

// stageFailed is the status of a keeper that was given nothing to keep.
const stageFailed = 126

// stageCommand starts the keeper without a scanner: it comes up, finds nothing
// to do and ends, which is what its start costs.
func stageCommand(agent string) (func(context.Context) (time.Duration, error), error) {
	if _, err := os.Stat(agent); err != nil {
		return nil, fmt.Errorf("%w: %w; run ./task build", errMissing, err)
	}
	return func(ctx context.Context) (time.Duration, error) {
		c := exec.CommandContext(ctx, agent)
		c.Args = []string{stageMarker}
		start := time.Now()
		err := c.Run()
		took := time.Since(start)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != stageFailed {
			return 0, fmt.Errorf("the keeper ended with %w, want status %d", err, stageFailed)
		}
		return took, nil
	}, nil
}
