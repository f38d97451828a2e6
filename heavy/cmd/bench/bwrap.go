package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
)

// bwrapRun compares a whole run (run directory, copy, agent, extraction, gate,
// launch, scanner, sealed result read back, clean-up) with the same bwrap
// command line and a static no-op in the agent's place.
func bwrapRun(ctx context.Context, b *bench) (r result, err error) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return result{}, fmt.Errorf("%w: no bwrap on this host", errMissing)
	}
	rt, err := b.lab.Bwrap()
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	archive, err := smallArchive(b.dir)
	if err != nil {
		return result{}, err
	}
	spec, err := lab.Spec("bench", archive, nil, "inmate", "nothing")
	if err != nil {
		return result{}, err
	}
	work := filepath.Join(b.dir, "bare-work")
	if err := os.MkdirAll(work, 0o777); err != nil {
		return result{}, err
	}
	argv := bwrap.Argv(bwrap.Config{Binary: "bwrap"}, spec, bwrap.Dirs{Room: filepath.Join(b.lab.Rooms, lab.Scanner), Work: work})
	for i, arg := range argv {
		if arg == "--" {
			argv = append(argv[:i+1:i+1], "inmate", "nothing")
			break
		}
	}
	ours, bare, err := pair(b.rounds*4, func() (time.Duration, error) {
		start := time.Now()
		out, err := rt.Run(ctx, spec)
		took := time.Since(start)
		if err == nil && (out.Status == nil || *out.Status != 0) {
			err = fmt.Errorf("the run ended %s: %s", out.Result.Ending, out.StderrTail)
		}
		return took, err
	}, func() (time.Duration, error) { return command(ctx, argv) })
	if err != nil {
		return result{}, err
	}
	value := by(ours, bare, difference)
	return result{
		A:     sideOf("a run", "bwrap.Runtime.Run over a package of two files", ours),
		B:     sideOf("bare bwrap", strings.Join(argv, " "), bare),
		Value: value, Unit: "ms more", Goal: "at most 8 ms more", Met: value <= 8,
	}, nil
}

// command times one child from start to reaping. As root it is started under
// the uid that the bwrap runtime drops to.
func command(ctx context.Context, argv []string) (time.Duration, error) {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if os.Getuid() == 0 && filepath.Base(argv[0]) == "bwrap" {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	start := time.Now()
	err := c.Run()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(stderr.String()))
	}
	return took, nil
}
