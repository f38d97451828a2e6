package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/agent/extract"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func extractTarGz(ctx context.Context, b *bench) (result, error) {
	archive := filepath.Join(b.dir, "source.tar.gz")
	err := pack(ctx, archive, func(string) []string { return []string{"tar", "-czf", archive, "src"} })
	if err != nil {
		return result{}, err
	}
	return extraction(ctx, b, archive, 0.55, []rival{
		{"GNU tar", func(dir string) []string { return []string{"tar", "-xzf", archive, "-C", dir} }},
		{"bsdtar", func(dir string) []string { return []string{"bsdtar", "-xzf", archive, "-C", dir} }},
	})
}

func extractZip(ctx context.Context, b *bench) (result, error) {
	archive := filepath.Join(b.dir, "source.zip")
	err := pack(ctx, archive, func(string) []string { return []string{"zip", "-qr", archive, "src"} })
	if err != nil {
		return result{}, err
	}
	return extraction(ctx, b, archive, 0.4, []rival{
		{"unzip", func(dir string) []string { return []string{"unzip", "-q", archive, "-d", dir} }},
	})
}

// rival is another extractor.
type rival struct {
	label string
	argv  func(dir string) []string
}

// extraction compares a process of ours that only extracts with the fastest
// rival there is.
func extraction(ctx context.Context, b *bench, archive string, goal float64, rivals []rival) (r result, err error) {
	defer func() { err = errors.Join(err, os.Remove(archive)) }()
	var best *result
	for _, other := range rivals {
		if _, err := exec.LookPath(other.argv("")[0]); err != nil {
			continue
		}
		ours, theirs, err := pair(max(b.rounds/2, 5),
			func() (time.Duration, error) { return intoFresh(ctx, b, oursArgv(archive)) },
			func() (time.Duration, error) { return intoFresh(ctx, b, other.argv) })
		if err != nil {
			return result{}, err
		}
		next := result{
			A:     sideOf("ours", strings.Join(oursArgv(archive)("DIR"), " "), ours),
			B:     sideOf(other.label, strings.Join(other.argv("DIR"), " "), theirs),
			Value: by(ours, theirs, ratio), Unit: "of its wall time", Goal: fmt.Sprintf("at most %.2f", goal),
		}
		next.Met = next.Value <= goal
		if best == nil || next.Value > best.Value {
			best = &next
		}
	}
	if best == nil {
		return result{}, fmt.Errorf("%w: no other extractor on this host", errMissing)
	}
	return *best, nil
}

func oursArgv(archive string) func(dir string) []string {
	return func(dir string) []string {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return []string{self, "helper:extract", archive, dir}
	}
}

// intoFresh times argv into a directory of its own, removed outside the clock.
func intoFresh(ctx context.Context, b *bench, argv func(dir string) []string) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(b.dir, "x-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return command(ctx, argv(dir))
}

// helperExtract unpacks one archive with the agent's extractor and ends.
func helperExtract(args []string) error {
	root, err := os.OpenRoot(args[1])
	if err != nil {
		return err
	}
	defer root.Close()
	src, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer src.Close()
	debug.SetGCPercent(50) // as the agent does
	policy := wire.DefaultExtractPolicy()
	policy.MaxBytes, policy.MaxFileBytes = 4<<30, 4<<30
	return extract.New(root, policy).Archive(context.Background(), "bench", src, wire.RelPath{}, nil)
}
