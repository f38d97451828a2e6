package room

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"runtime"
	"strings"
)

// layer is one layer of an image, in an archive.
type layer struct {
	name string
	// stored is the digest of the layer as it is stored, content that of the
	// tar in it; the one that is known is checked.
	stored, content string
}

// image makes the layers of an image archive part of the room.
func (t *tree) image(ctx context.Context, name string) error {
	a, err := openArchive(name)
	if err != nil {
		return err
	}
	defer a.Close()
	layers, err := layersOf(a)
	if err != nil {
		return err
	}
	for i, l := range layers {
		if err := t.layer(ctx, a, l); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return nil
}

// layersOf reads an OCI image layout, and where there is none the older form
// of docker save.
func layersOf(a archive) ([]layer, error) {
	index, err := document(a, "index.json")
	if err == nil {
		return ociLayers(a, index)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	manifest, err := document(a, "manifest.json")
	if err != nil {
		return nil, errors.New("it is neither an OCI image layout nor an archive of docker save: no index.json, no manifest.json")
	}
	return dockerLayers(a, manifest)
}

// descriptor is the part of an OCI descriptor that matters here.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Platform  *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

func (d descriptor) isIndex() bool {
	return strings.Contains(d.MediaType, "image.index") || strings.Contains(d.MediaType, "manifest.list")
}

// fits says whether the image is, or may be, one for this machine.
func (d descriptor) fits() bool {
	return d.Platform == nil || d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
}

func ociLayers(a archive, index []byte) ([]layer, error) {
	for range 4 {
		d, err := choose(index)
		if err != nil {
			return nil, err
		}
		b, err := blobDocument(a, d.Digest)
		if err != nil {
			return nil, err
		}
		if d.isIndex() {
			index = b
			continue
		}
		var m struct {
			Layers []descriptor `json:"layers"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("the image's manifest: %w", err)
		}
		layers := make([]layer, 0, len(m.Layers))
		for _, l := range m.Layers {
			name, err := blobName(l.Digest)
			if err != nil {
				return nil, err
			}
			layers = append(layers, layer{name: name, stored: l.Digest})
		}
		return layers, nil
	}
	return nil, errors.New("its indexes are nested too deep")
}

// choose takes the one image of an index that is for this machine.
func choose(index []byte) (descriptor, error) {
	var doc struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(index, &doc); err != nil {
		return descriptor{}, fmt.Errorf("its index: %w", err)
	}
	var fitting []descriptor
	for _, d := range doc.Manifests {
		if d.fits() {
			fitting = append(fitting, d)
		}
	}
	if len(fitting) != 1 {
		return descriptor{}, fmt.Errorf("it holds %d images for linux/%s, want one", len(fitting), runtime.GOARCH)
	}
	return fitting[0], nil
}

var digestPattern = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

func blobName(digest string) (string, error) {
	m := digestPattern.FindStringSubmatch(digest)
	if m == nil {
		return "", fmt.Errorf("digest %.80q, want sha256 and 64 hexadecimal digits", digest)
	}
	return "blobs/sha256/" + m[1], nil
}

func blobDocument(a archive, digest string) ([]byte, error) {
	name, err := blobName(digest)
	if err != nil {
		return nil, err
	}
	b, err := document(a, name)
	if err != nil {
		return nil, err
	}
	got := sha256.Sum256(b)
	return b, sameDigest(name, hex.EncodeToString(got[:]), digest)
}

func sameDigest(name, got, want string) error {
	if "sha256:"+got != want {
		return fmt.Errorf("%s has the digest sha256:%s, want %s", name, got, want)
	}
	return nil
}

func dockerLayers(a archive, manifest []byte) ([]layer, error) {
	var images []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(manifest, &images); err != nil {
		return nil, fmt.Errorf("its manifest.json: %w", err)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("it holds %d images, want one", len(images))
	}
	b, err := document(a, images[0].Config)
	if err != nil {
		return nil, err
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	if len(config.RootFS.DiffIDs) != len(images[0].Layers) {
		return nil, fmt.Errorf("it has %d layers and %d digests of layers", len(images[0].Layers), len(config.RootFS.DiffIDs))
	}
	layers := make([]layer, 0, len(images[0].Layers))
	for i, name := range images[0].Layers {
		layers = append(layers, layer{name: name, content: config.RootFS.DiffIDs[i]})
	}
	return layers, nil
}

// layer applies one layer, and checks the digest that is known of it once all
// of it was read.
func (t *tree) layer(ctx context.Context, a archive, l layer) error {
	f, err := a.open(l.name)
	if err != nil {
		return err
	}
	defer f.Close()
	stored, content := sha256.New(), sha256.New()
	raw := io.TeeReader(contextReader{ctx, f}, stored)
	plain, err := inflate(raw)
	if err != nil {
		return err
	}
	defer plain.Close()
	source := io.TeeReader(plain, content)
	if err := t.apply(ctx, source); err != nil {
		return err
	}
	// A tar's reader stops at the end marker; what is behind it counts too.
	for _, rest := range []io.Reader{source, raw} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return err
		}
	}
	if l.stored != "" {
		return sameDigest(l.name, hex.EncodeToString(stored.Sum(nil)), l.stored)
	}
	return sameDigest(l.name, hex.EncodeToString(content.Sum(nil)), l.content)
}
