package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// openTarget opens the artifact, of at most maxMB MiB, and reads its beginning.
func openTarget(ctx context.Context, path string, maxMB int64) (scanner.Target, error) {
	artifact, err := openArtifact(path, maxMB)
	if err != nil {
		return scanner.Target{}, fmt.Errorf("could not scan: %w", err)
	}
	head, err := readHead(ctx, artifact)
	if err != nil {
		return scanner.Target{}, fmt.Errorf("reading the artifact: %w", plainPathError(err))
	}
	return scanner.Target{Artifact: artifact, FileName: filepath.Base(path), Head: head}, nil
}

// openArtifact opens an artifact of at most maxMB MiB. A larger one is refused
// here: a run copies its artifact whole before anything looks at it, and a
// sparse file can be as large as anybody likes.
func openArtifact(path string, maxMB int64) (sandbox.Artifact, error) {
	artifact, err := bundle.FileArtifact(path)
	if err != nil {
		return nil, plainPathError(err)
	}
	if size := artifact.Size(); size > maxMB<<20 {
		return nil, fmt.Errorf("%s has %s, more than [worker.sandbox] max_artifact_mb allows (%d MiB)", path, ui.Bytes(size), maxMB)
	}
	return artifact, nil
}

func readHead(ctx context.Context, artifact sandbox.Artifact) ([]byte, error) {
	r, err := artifact.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, scanner.HeadSize))
}

// readSmall reads a file that the user named, of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	b, err := bundle.ReadFile(path, limit)
	return b, plainPathError(err)
}

// plainPathError says "no such file or directory: x" instead of naming the
// system call.
func plainPathError(err error) error {
	if p, is := errors.AsType[*os.PathError](err); is {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
