package targets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// keyOf names what is broken.
func keyOf(broken breakage) string {
	b, err := json.Marshal([]any{broken.edits, broken.agent, broken.noAgent, broken.files, broken.extra, broken.ignore})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:5])
}

// image is the image of a room, made once a session by the engine itself, from
// nothing.
func (b *ociBase) image(ctx context.Context, s conformance.Setup, broken breakage) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// What is broken outside an image does not make another one.
	key := s.Token + "-" + keyOf(breakage{agent: broken.agent, noAgent: broken.noAgent, files: broken.files})
	if image := b.images[key]; image != "" {
		return image, nil
	}
	name := "localhost/batlehub-sandbox-conformance:" + key
	err := inTemporary(s, func(dir string) error {
		tree := filepath.Join(dir, "room")
		if err := buildImageTree(ctx, b.builder, s, tree, broken); err != nil {
			return err
		}
		return b.importTree(ctx, tree, name)
	})
	if err != nil {
		return "", fmt.Errorf("making an image: %w", err)
	}
	b.names = append(b.names, name)
	id, err := b.engine(ctx, "image", "inspect", "--format", "{{.Id}}", name)
	if err != nil {
		return "", err
	}
	// By digest: a name could be moved to another image meanwhile.
	b.images[key] = "sha256:" + strings.TrimPrefix(id, "sha256:")
	return b.images[key], nil
}

// buildImageTree is a room with what an image has besides: the places that a
// run's things are mounted at.
func buildImageTree(ctx context.Context, b *Builder, s conformance.Setup, tree string, broken breakage) error {
	if err := buildRoom(ctx, b, s, tree, breakage{agent: broken.agent, noAgent: broken.noAgent, files: broken.files}); err != nil {
		return err
	}
	for _, place := range []string{"bundle", "work"} {
		if err := os.MkdirAll(filepath.Join(tree, place), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// importTree has the engine make an image of one layer.
func (b *ociBase) importTree(ctx context.Context, tree, name string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(room.WriteTar(w, tree)) }()
	cmd := exec.CommandContext(ctx, b.Binary, "import", "-", name)
	cmd.Stdin = r
	_, err := cmd.Output()
	return errors.Join(withStderr(err), r.Close())
}

// another is an image with one more file.
func (b *ociBase) another(ctx context.Context, s conformance.Setup) (string, conformance.MarkedFile, error) {
	file := conformance.MarkedFile{Path: "/usr/share/another", Content: "another image"}
	image, err := b.image(ctx, s, breakage{files: map[string]string{"usr/share/another": file.Content}})
	return image, file, err
}

// release removes the session's images.
func (b *ociBase) release(ctx context.Context, _ conformance.Setup) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, name := range b.names {
		_, err := b.engine(ctx, "rmi", "-f", name)
		errs = append(errs, err)
	}
	b.names, b.images = nil, map[string]string{}
	return errors.Join(errs...)
}
