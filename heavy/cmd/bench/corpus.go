package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// smallArchive is a package of two files.
func smallArchive(dir string) (string, error) {
	path := filepath.Join(dir, "small.tgz")
	return path, writeTarGz(path, []string{"package/package.json", "package/index.js"}, func(_ int, w io.Writer) error {
		_, err := io.WriteString(w, "module.exports = 1\n")
		return err
	}, 19)
}

// largeArchive holds ten files of 50 MiB, half noise and half text, so that it
// compresses about as packages do.
func largeArchive(dir string) (string, error) {
	const size = 50 << 20
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("package/blob%d", i)
	}
	path := filepath.Join(dir, "large.tgz")
	return path, writeTarGz(path, names, func(i int, w io.Writer) error {
		noise := rand.NewChaCha8([32]byte{byte(i)})
		text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog\n", 100))[:4096]
		block := make([]byte, 8192)
		copy(block[4096:], text)
		for range size / len(block) {
			if _, err := noise.Read(block[:4096]); err != nil {
				return err
			}
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	}, size)
}

func writeTarGz(path string, names []string, fill func(i int, w io.Writer) error, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for i, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		if err := fill(i, w); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

// sourceTree is the Go toolchain's own source: more than 10,000 real files.
func sourceTree(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src"), nil
}

// pack runs an archiver over the source tree once.
func pack(ctx context.Context, path string, argv func(tree string) []string) error {
	tree, err := sourceTree(ctx)
	if err != nil {
		return err
	}
	line := argv(tree)
	if _, err := exec.LookPath(line[0]); err != nil {
		return fmt.Errorf("%w: no %s on this host", errMissing, line[0])
	}
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Dir = filepath.Dir(tree)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("making %s: %w: %s", path, err, out)
	}
	return nil
}
