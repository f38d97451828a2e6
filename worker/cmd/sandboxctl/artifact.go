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
	"github.com/batleforc/batlehub-sandbox/worker/scanner"
)

// openTarget opens the artifact and reads its beginning.
func openTarget(ctx context.Context, path string) (scanner.Target, error) {
	artifact, err := bundle.FileArtifact(path)
	if err != nil {
		return scanner.Target{}, plainPathError(err)
	}
	head, err := readHead(ctx, artifact)
	if err != nil {
		return scanner.Target{}, fmt.Errorf("reading the artifact: %w", plainPathError(err))
	}
	return scanner.Target{Artifact: artifact, FileName: filepath.Base(path), Head: head}, nil
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
