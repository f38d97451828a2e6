package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// agentMemory compares the peak resident size of the agent, which fetches and
// unpacks 500 MiB inside bwrap, with GNU tar's and its gzip's.
func agentMemory(ctx context.Context, b *bench) (r result, err error) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return result{}, fmt.Errorf("%w: no bwrap on this host", errMissing)
	}
	archive, err := largeArchive(b.dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(archive)) }()
	ours, command, err := agentPeak(ctx, b, archive)
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp(b.dir, "tar-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	argv := []string{"tar", "-xzf", archive, "-C", dir}
	theirs, err := peak(ctx, argv)
	if err != nil {
		return result{}, err
	}
	return result{
		A:     mib("agent", command, ours),
		B:     mib("GNU tar + gzip", strings.Join(argv, " "), theirs),
		Value: ours, Unit: "MiB resident", Goal: "at most 24 MiB", Met: ours <= 24,
	}, nil
}

func mib(label, command string, value float64) side {
	return side{Label: label, Command: command, Median: value, Min: value, Max: value, Unit: "MiB"}
}

// agentPeak runs the agent by bwrap's own command line, so that what is
// measured is the largest process inside: the scanner does nothing.
func agentPeak(ctx context.Context, b *bench, archive string) (peakMiB float64, command string, err error) {
	spec, err := lab.Spec("memory", archive, nil, "inmate", "nothing")
	if err != nil {
		return 0, "", err
	}
	spec.Bundle.Policy.MaxBytes = 1 << 30
	work, err := os.MkdirTemp(b.dir, "memory-")
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := fill(work, archive, bundle.Manifest(spec, nil)); err != nil {
		return 0, "", err
	}
	argv := bwrap.Argv(bwrap.Config{Binary: "bwrap"}, spec, bwrap.Dirs{Room: filepath.Join(b.lab.Rooms, lab.Scanner), Work: work})
	value, err := peak(ctx, argv)
	return value, strings.Join(argv, " "), err
}

// fill lays out a run directory by hand.
func fill(work, archive string, m *wire.Manifest) error {
	m.Entries[0].URL = "file:///work/in/artifact"
	document, err := m.Encode()
	if err != nil {
		return err
	}
	in := filepath.Join(work, "in")
	if err := os.Mkdir(in, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "manifest.json"), document, 0o644); err != nil {
		return err
	}
	if err := os.Link(archive, filepath.Join(in, "artifact")); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	for _, path := range []string{work, in, filepath.Join(work, "manifest.json"), filepath.Join(in, "artifact")} {
		if err := os.Chown(path, 65532, 65532); err != nil {
			return err
		}
	}
	return nil
}

// peak is the largest resident size, in MiB, of any process that argv becomes
// or starts. It goes through a helper: the kernel counts what a child shared
// with its parent before execve, and this process is larger than some children.
func peak(ctx context.Context, argv []string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, self, append([]string{"helper:rusage"}, argv...)...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("measuring %s: %w", argv[0], err)
	}
	var kib int64
	if err := json.Unmarshal(out, &kib); err != nil {
		return 0, err
	}
	return float64(kib) / 1024, nil
}

func helperRusage(argv []string) error {
	c := exec.Command(argv[0], argv[1:]...)
	c.Stderr = os.Stderr
	if os.Getuid() == 0 && filepath.Base(argv[0]) == "bwrap" {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if err := c.Run(); err != nil {
		return err
	}
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no resource usage on this system")
	}
	return json.NewEncoder(os.Stdout).Encode(usage.Maxrss)
}
