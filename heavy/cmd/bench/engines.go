package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// podmanRun and dockerRun compare a whole run over the mount transport with
// the engine's plain command line: the same image, no network, no input.
func podmanRun(ctx context.Context, b *bench) (result, error) { return engineRun(ctx, b, oci.Podman) }

func dockerRun(ctx context.Context, b *bench) (result, error) { return engineRun(ctx, b, oci.Docker) }

func engineRun(ctx context.Context, b *bench, engine string) (r result, err error) {
	image, remove, err := labImage(ctx, b, engine)
	if err != nil {
		return result{}, err
	}
	defer remove()
	rt, err := oci.New(oci.Config{Engine: engine, Image: image, RunDir: b.lab.RunDir, Worker: "heavy"})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	spec, err := benchSpec(b)
	if err != nil {
		return result{}, err
	}
	argv := plainRun(engine, image)
	ours, plain, err := pair(b.rounds, runOf(ctx, rt, spec), func() (time.Duration, error) { return command(ctx, argv) })
	if err != nil {
		return result{}, err
	}
	return result{
		A:     sideOf("a run", "oci.Runtime.Run over a package of two files, "+engine+", transport mount", ours),
		B:     sideOf("plain "+engine, strings.Join(argv, " "), plain),
		Value: by(ours, plain, ratio), Unit: "times as long", Goal: "reported only", Met: true,
	}, nil
}

// labImage is the lab's room as an image of an engine, and what removes it.
func labImage(ctx context.Context, b *bench, engine string) (string, func(), error) {
	if err := exec.CommandContext(ctx, engine, "info").Run(); err != nil {
		return "", nil, fmt.Errorf("%w: %s does not work here; scripts/engines.sh starts it", errMissing, engine)
	}
	layer, err := b.lab.Layer()
	if err != nil {
		return "", nil, err
	}
	const name = "localhost/batlehub-sandbox-bench:latest"
	load := exec.CommandContext(ctx, engine, "import", "-", name)
	load.Stdin = bytes.NewReader(layer)
	if out, err := load.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("importing the room into %s: %w: %s", engine, err, out)
	}
	return name, func() {
		_ = exec.CommandContext(context.WithoutCancel(ctx), engine, "rmi", "-f", name).Run()
	}, nil
}

// plainRun is what one would type to run the same program in the same room.
func plainRun(engine, image string) []string {
	return []string{engine, "run", "--rm", "--network", "none", image, "inmate", "nothing"}
}

func benchSpec(b *bench) (sandbox.RunSpec, error) {
	archive, err := smallArchive(b.dir)
	if err != nil {
		return sandbox.RunSpec{}, err
	}
	return lab.Spec("bench", archive, nil, "inmate", "nothing")
}

// runOf times whole runs, each an attempt of its own.
func runOf(ctx context.Context, rt sandbox.Runtime, spec sandbox.RunSpec) timed {
	return func() (time.Duration, error) {
		spec.Label.Attempt++
		start := time.Now()
		out, err := rt.Run(ctx, spec)
		took := time.Since(start)
		if err == nil && (out.Status == nil || *out.Status != 0) {
			err = fmt.Errorf("the run ended %s: %s", out.Result.Ending, out.StderrTail)
		}
		return took, err
	}
}
