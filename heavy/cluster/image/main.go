// Command image makes an image archive of one layer from a directory, which
// both "ctr images import" and "kind load image-archive" take, and prints the
// reference that a pod names it by: NAME@sha256:…, so that no name can be moved
// to another image. A NAME with a tag is imported, and printed, as it is.
//
//	image [-entrypoint PROGRAM] [-user UID:GID] DIRECTORY NAME ARCHIVE
package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
)

// nameAnnotation is what containerd takes an imported image's name from.
const nameAnnotation = "io.containerd.image.name"

func main() {
	entrypoint := flag.String("entrypoint", "", "the image's program")
	user := flag.String("user", "65532:65532", "whom it runs as")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: image [-entrypoint PROGRAM] [-user UID:GID] DIRECTORY NAME ARCHIVE")
		os.Exit(2)
	}
	reference, err := write(flag.Arg(0), flag.Arg(1), flag.Arg(2), v1.Config{User: *user, Entrypoint: strings.Fields(*entrypoint)})
	if err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(reference)
}

func write(directory, name, archive string, config v1.Config) (reference string, err error) {
	image, err := imageOf(directory, config)
	if err != nil {
		return "", fmt.Errorf("making an image of %s: %w", directory, err)
	}
	reference, err = referenceOf(name, image)
	if err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(archive), "layout-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	path, err := layout.Write(temporary, empty.Index)
	if err != nil {
		return "", err
	}
	if err := path.AppendImage(image, layout.WithAnnotations(map[string]string{nameAnnotation: reference})); err != nil {
		return "", err
	}
	return reference, writeFile(archive, func(w io.Writer) error {
		t := tar.NewWriter(w)
		return errors.Join(t.AddFS(os.DirFS(temporary)), t.Close())
	})
}

// referenceOf adds the digest to a name that has no tag.
func referenceOf(name string, image v1.Image) (string, error) {
	if strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") {
		return name, nil
	}
	digest, err := image.Digest()
	return name + "@" + digest.String(), err
}

// imageOf is the image, as it would be pushed.
func imageOf(directory string, config v1.Config) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(room.WriteTar(w, directory)) }()
		return r, nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", config
	return mutate.ConfigFile(image, file)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
