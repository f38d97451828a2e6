package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// FileArtifact is the regular file at path as an artifact, at the size it has
// now. A path that leads to anything but a regular file is refused: a FIFO or
// a device would keep a run waiting for bytes that never come.
func FileArtifact(path string) (sandbox.Artifact, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, fmt.Errorf("opening the artifact: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening the artifact: %w", err)
	}
	return fileArtifact{path: path, size: info.Size()}, nil
}

type fileArtifact struct {
	path string
	size int64
}

func (a fileArtifact) Key() string { return "" }
func (a fileArtifact) Size() int64 { return a.size }
func (a fileArtifact) Open(context.Context) (io.ReadCloser, error) {
	return OpenRegular(a.path)
}

// BytesArtifact is b as an artifact. The slice must not change while a run
// uses it.
func BytesArtifact(b []byte) sandbox.Artifact { return bytesArtifact(b) }

type bytesArtifact []byte

func (a bytesArtifact) Key() string { return "" }
func (a bytesArtifact) Size() int64 { return int64(len(a)) }
func (a bytesArtifact) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(a)), nil
}
